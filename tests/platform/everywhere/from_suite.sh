#!/bin/sh
# from_suite.sh SUITE ARCH FOLDER PACKAGE...
# Extracts Debian packages of a suite and an architecture, and all packages that they depend on, into FOLDER. It installs nothing on this system. It
# uses apt with its own package lists below FOLDER.apt, and the mirror that this system uses. Exits with 77 if the packages cannot be fetched.
set -eu
suite=$1 arch=$2 folder=$3
shift 3
apt=$folder.apt

cannot() { printf '%s\n' "$1" >&2; exit 77; }
command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || cannot "no apt-get here: no packages of Debian $suite"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keys" ] || cannot "no $keys: no packages of Debian $suite"

# The first Debian mirror in the configured sources.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
  grep -v '^#' | grep -o 'https\{0,1\}://[^ ]*/debian/\{0,1\}\( \|$\)' | head -n 1 | tr -d ' ')
mirror=${mirror:-http://deb.debian.org/debian}

mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/parts"
: >"$apt/status"
echo "deb [arch=$arch signed-by=$keys] $mirror $suite main" >"$apt/sources.list"
get() {
  apt-get -qq -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o Dir::Etc::sourcelist="$apt/sources.list" \
    -o Dir::Etc::sourceparts="$apt/parts" -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" \
    -o Dir::Cache::archives="$apt/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Dir::Etc::preferencesparts="$apt/parts" \
    -o Dir::State::extended_states="$apt/extended" -o APT::Install-Recommends=0 -o APT::Sandbox::User=root -o Debug::NoLocking=1 \
    -o Acquire::Languages=none -o Acquire::Retries=2 -o APT::Get::Assume-Yes=1 "$@"
}
get update >"$apt/log" 2>&1 && get install --download-only "$@" >>"$apt/log" 2>&1 ||
  cannot "packages of Debian $suite cannot be fetched: $(grep '^[EW]:' "$apt/log" | head -n 1)"

rm -rf "$folder.new"
mkdir "$folder.new"
for package in "$apt"/archives/*.deb; do
  dpkg-deb -x "$package" "$folder.new"
done
rm -rf "$folder" "$apt"
mv "$folder.new" "$folder"
