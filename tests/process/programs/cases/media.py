"""FFmpeg, GStreamer and ImageMagick: frames and pictures that they make, compared by their hashes."""

import re

from harness.case import Case
from harness.side import digest, digest_files

FRAME = re.compile(r"^(\d), +\d+, +(-?\d+),.*, +(\w+)$", re.MULTILINE)
PICTURES = "testsrc2=size=480x270:rate=25"
SOUND = "sine=frequency=440:beep_factor=4:sample_rate=44100"
# Codec, container and more options. Each codec uses two threads, and no option that makes an encoder work less well if it is late.
CODECS = {
    "mpeg4": ("mpeg4", "avi", "-q:v 5"), "mpeg2": ("mpeg2video", "mpegts", "-q:v 5 -bf 2"), "h264": ("libx264", "matroska", "-preset veryfast -crf 28"),
    "h265": ("libx265", "matroska", "-preset ultrafast -x265-params log-level=error:pools=2:frame-threads=1"),
    "vp8": ("libvpx", "webm", "-b:v 500k -deadline good -cpu-used 5"), "vp9": ("libvpx-vp9", "webm", "-b:v 500k -deadline realtime -cpu-used 8 -row-mt 1"),
    "theora": ("libtheora", "ogg", "-q:v 5"), "ffv1": ("ffv1", "matroska", "-level 3 -slices 4"), "prores": ("prores_ks", "mov", "-profile:v 0"),
    "mjpeg": ("mjpeg", "matroska", "-q:v 4"), "png": ("png", "matroska", ""), "huffyuv": ("huffyuv", "matroska", ""), "flv": ("flv", "flv", "-q:v 4"),
}
SOUNDS = {"aac": ("aac", "adts"), "mp3": ("libmp3lame", "mp3"), "opus": ("libopus", "ogg"), "vorbis": ("libvorbis", "ogg"), "flac": ("flac", "flac"),
          "ac3": ("ac3", "ac3"), "alac": ("alac", "mov"), "wavpack": ("wavpack", "wv")}
FILTERS = {
    "scale": "scale=320:240:flags=lanczos,rotate=PI/6,unsharp", "blend": "split[a][b];[a]hflip[c];[c][b]blend=all_mode=screen",
    "denoise": "hqdn3d,gblur=sigma=3,edgedetect", "tile": "tile=3x2,scale=480:-2", "interpolate": "framerate=fps=60", "palette":
    "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1", "wave": "format=yuv444p,vignette,curves=vintage,lenscorrection=k1=-0.2:k2=0.1",
}


class FFmpeg(Case):
    """FFmpeg: codecs with two threads, encoded and decoded, and filters; the hash of each frame is a check."""

    name = "ffmpeg"
    medium = 0
    least = 2500
    packages = {"ffmpeg": "ffmpeg"}

    def groups(self, quick):
        return [*(f"video {c}" for c in CODECS), *(f"sound {s}" for s in SOUNDS), *(f"filter {f}" for f in FILTERS)]

    def run(self, side, group):
        work = side.fresh("work")
        kind, name = group.split()
        begin = ["ffmpeg", "-nostdin", "-v", "error", "-threads", "2"]
        exact = ["-fflags", "+bitexact", "-flags", "+bitexact", "-threads", "2"]
        if kind == "filter":
            made = side.run([*begin, "-filter_complex_threads", "2", "-f", "lavfi", "-i", PICTURES, "-t", "4", "-filter_complex", FILTERS[name],
                             "-f", "framehash", "-hash", "md5", "frames"], cwd=work, timeout=240)
            return {"made": made.outcome, **self.frames(work / "frames", "frame")}
        source, (codec, container, *more) = (PICTURES, CODECS[name]) if kind == "video" else (SOUND, SOUNDS[name])
        pixels = ["-pix_fmt", {"png": "rgb24", "mjpeg": "yuvj420p", "huffyuv": "yuv422p", "prores": "yuv422p10le"}.get(name, "yuv420p")]
        made = side.run([*begin, "-f", "lavfi", "-i", source, "-t", "4" if kind == "video" else "20", *(pixels if kind == "video" else []),
                         f"-c:{kind[0] if kind == 'video' else 'a'}", codec, *(more[0].split() if more else []), *exact,
                         "-f", container, "file"], cwd=work, timeout=240)
        packets = side.run([*begin, "-i", "file", "-c", "copy", "-f", "framehash", "-hash", "md5", "packets"], cwd=work)
        back = side.run([*begin, "-i", "file", *exact, "-f", "framehash", "-hash", "md5", "frames"], cwd=work, timeout=240)
        return {"made": made.outcome, "copied": packets.outcome, "back": back.outcome,
                **self.frames(work / "packets", "packet"), **self.frames(work / "frames", "frame")}

    @staticmethod
    def frames(path, word):
        text = path.read_text() if path.exists() else ""
        return {f"{word} {number}": found[2] for number, found in enumerate(FRAME.findall(text), 1)}


VIDEO = "videotestsrc num-buffers=120 pattern={} ! video/x-raw,width=320,height=240,framerate=30/1"
PIPELINES = {
    **{f"pattern {p}": VIDEO.format(p) + " ! queue ! videoconvert n-threads=2 ! video/x-raw,format=RGB" for p in
       ("smpte", "ball", "checkers-1", "circular", "zone-plate", "gamut", "spokes", "gradient", "colors", "pinwheel")},
    "jpeg": VIDEO.format("ball") + " ! jpegenc ! queue ! jpegdec ! queue ! videoconvert",
    "png": VIDEO.format("spokes") + " ! videoconvert ! pngenc ! queue ! pngdec ! queue",
    "vp8": VIDEO.format("ball") + " ! vp8enc threads=2 deadline=1000000 cpu-used=5 ! queue ! vp8dec threads=2 ! queue",
    "vp9": VIDEO.format("circular") + " ! vp9enc threads=2 deadline=1 cpu-used=8 ! queue ! vp9dec threads=2",
    "scale and rate": VIDEO.format("smpte") + " ! queue ! videoscale n-threads=2 ! video/x-raw,width=177,height=201 ! queue ! videorate !"
                      " video/x-raw,framerate=50/1",
    "tee and mix": VIDEO.format("ball") + " ! tee name=t ! queue ! videoflip method=clockwise ! m.sink_0 t. ! queue ! gamma gamma=2 ! m.sink_1"
                   " compositor name=m sink_1::xpos=60 ! queue ! videoconvert",
    "sound": "audiotestsrc num-buffers=300 wave=ticks ! audioconvert ! queue ! audioresample ! audio/x-raw,rate=22050 ! queue ! wavenc",
    "vorbis": "audiotestsrc num-buffers=300 ! audioconvert ! vorbisenc ! queue ! vorbisdec ! audioconvert ! audio/x-raw,format=S16LE",
    "flac": "audiotestsrc num-buffers=300 wave=saw ! audioconvert ! flacenc ! queue ! flacparse ! flacdec",
}


class GStreamer(Case):
    """GStreamer: pipelines whose parts run in threads of their own; the hash of each frame is a check."""

    name = "gstreamer"
    medium = 0
    least = 1500
    packages = {"gst-launch-1.0": "gstreamer1.0-tools", "/usr/lib/*/gstreamer-1.0/libgstvideotestsrc.so": "gstreamer1.0-plugins-base",
                "/usr/lib/*/gstreamer-1.0/libgstvpx.so": "gstreamer1.0-plugins-good"}

    def groups(self, quick):
        return list(PIPELINES)

    def run(self, side, group):
        work = side.fresh("work")
        line = PIPELINES[group] + " ! multifilesink location=%05d.frame"
        done = side.run(["gst-launch-1.0", "-q", *line.split()], cwd=work, timeout=240, env={"GST_REGISTRY": side.dir / "registry.bin"})
        return {"end": done.outcome, "complaints": digest(side.clean(done.err)), **digest_files(work, "*.frame")}


OPERATIONS = """
    -resize_61% -rotate_33 -blur_0x3 -sharpen_0x2 -edge_2 -emboss_1 -charcoal_2 -swirl_120 -implode_0.4 -wave_9x80 -paint_3 -median_2 -despeckle
    -equalize -normalize -negate -solarize_40% -posterize_5 -colors_17 -monochrome -flip -transpose -shear_20x10 -spread_0 -shade_30x40 -sepia-tone_80%
    -modulate_90,130,70 -gamma_1.7 -level_10%,90% -contrast-stretch_2% -auto-level -liquid-rescale_80x100% -adaptive-resize_45% -scale_300%
    -crop_90x70+30+20 -trim -chop_20x20 -motion-blur_0x6+40 -radial-blur_8 -morphology_Dilate_Disk -morphology_EdgeIn_Octagon
    -fft -canny_0x1+10%+30% -kuwahara_2 -mean-shift_5x5+10% -distort_Arc_70 -distort_Polar_0
    -connected-components_4 -ordered-dither_o4x4 -segment_1x1 -vignette_0x20 -colorspace_Lab -colorspace_HSL -separate -deskew_40% -raise_12
    -statistic_Median_5x5 -lat_20x20+3% -noise_2 -sketch_0x4+20 -polaroid_3 -hough-lines_5x5+40
""".split()
FORMATS = ("png", "jpg", "gif", "tiff", "bmp", "ppm", "miff", "pcx", "tga", "webp", "xpm", "sgi", "psd", "dds", "pict", "jp2")


class ImageMagick(Case):
    """ImageMagick with OpenMP on two threads: operations on three pictures, and formats converted and back, by the hash of all pixels."""

    name = "imagemagick"
    medium = 0
    least = 400
    packages = {"/usr/bin/convert-im6.q16": "imagemagick"}
    sources = {"plasma": ["-size", "240x180", "plasma:tomato-navy"], "rose": ["rose:"], "wizard": ["wizard:", "-resize", "200x200"]}

    def groups(self, quick):
        return [*self.sources, "formats"]

    def convert(self, side, *words):
        return side.run(["/usr/bin/convert-im6.q16", "-seed", "7", *words], cwd=side.dir / "work", timeout=120,
                        env={"MAGICK_THREAD_LIMIT": "2", "OMP_NUM_THREADS": "2"})

    def run(self, side, group):
        side.fresh("work")
        found = {}
        if group == "formats":
            self.convert(side, *self.sources["plasma"], "-depth", "8", "a.miff")
            for form in FORMATS:
                there = self.convert(side, "a.miff", f"b.{form}")
                back = self.convert(side, f"b.{form}", "-format", "%w %h %#\n", "info:")
                found[f"{form} written"], found[f"{form} read"] = there.outcome, f"{back.outcome} {digest(back.out)}"
            return found
        self.convert(side, *self.sources[group], "-depth", "8", "a.miff")
        for operation in OPERATIONS:
            done = self.convert(side, "a.miff", *operation.split("_"), "-format", "%w %h %#\n", "info:")
            found[operation], found[f"{operation}: end"] = digest(done.out), done.outcome
        return found
