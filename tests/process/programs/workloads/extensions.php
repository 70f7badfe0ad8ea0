<?php
// Every extension that has something to allocate for is made to: name=value, the same each time.

function show(string $name, callable $work): void
{
    try {
        $value = $work();
    } catch (Throwable $thrown) {
        $value = 'fail';
        fwrite(STDERR, "$name: {$thrown->getMessage()}\n");
    }
    echo $name, '=', $value === 'fail' ? $value : substr(hash('sha256', is_string($value) ? $value : serialize($value)), 0, 16), "\n";
}

function records(int $count): array
{
    $made = [];
    for ($i = 0; $i < $count; $i++) {
        $made["key$i"] = ['id' => $i, 'name' => str_repeat(chr(97 + $i % 26), $i % 300), 'parts' => range(0, $i % 50), 'half' => $i / 2];
    }
    return $made;
}

$data = records(3000);
$text = json_encode($data);
$xml = '<list>' . implode('', array_map(fn($i) => "<item id='$i'><name>n$i</name></item>", range(0, 2000))) . '</list>';

foreach (get_loaded_extensions() as $name) {
    echo "loaded-", strtr($name, ' ', '_'), "=", strtr((new ReflectionExtension($name))->getVersion() ?: '-', ' ', '_'), "\n";
}
show('json', fn() => json_decode($text, true) === $data);
show('serialize', fn() => unserialize(serialize($data)) === $data);
show('igbinary', fn() => [strlen(igbinary_serialize($data)), igbinary_unserialize(igbinary_serialize($data)) === $data]);
show('msgpack', fn() => [strlen(msgpack_pack($data)), msgpack_unpack(msgpack_pack($data)) === $data]);
show('yaml', fn() => yaml_parse(yaml_emit(array_slice($data, 0, 500))) == array_slice($data, 0, 500));
show('zlib', fn() => gzuncompress(gzcompress($text, 9)) === $text);
show('bz2', fn() => bzdecompress(bzcompress($text)) === $text);
show('http', fn() => (new http\Url('http://u:p@h:80/a/../b?q=1#f'))->toString());
show('hash', fn() => array_map(fn($a) => hash($a, $text), hash_algos()));
show('gmp', fn() => gmp_strval(gmp_fact(2000)) . gmp_strval(gmp_powm(3, gmp_fact(300), gmp_nextprime('1' . str_repeat('0', 200)))));
show('bcmath', fn() => bcpow('1.0000001', '3000', 300) . bcsqrt('2', 900));
show('mbstring', fn() => mb_convert_encoding(str_repeat("Grüße, 世界! ", 3000), 'UTF-16', 'UTF-8') . mb_strtoupper(str_repeat('straße', 999)));
show('iconv', fn() => iconv('UTF-8', 'ISO-8859-1//TRANSLIT', str_repeat("Größe naïve ", 5000)));
show('intl', fn() => (new NumberFormatter('de_DE', NumberFormatter::SPELLOUT))->format(987654321)
    . Normalizer::normalize(str_repeat("e\u{301}", 5000)) . (new Collator('sv'))->getSortKey('ångström'));
show('intl-break', function () {
    $words = IntlBreakIterator::createWordInstance('en');
    $words->setText(str_repeat('One two, three. ', 500));
    return iterator_to_array($words);
});
show('pcre', fn() => preg_match_all('/(?<w>\w+)-(?:(\d+)|x)/u', str_repeat('ab-12 c-x d-3 ', 5000), $found) . count($found['w']));
show('date', fn() => implode(',', array_map(fn($d) => $d->format('c'), iterator_to_array(
    new DatePeriod(new DateTime('2020-01-01T00:00:00Z'), new DateInterval('P1D'), 900)))));
show('dom', function () use ($xml) {
    $document = new DOMDocument();
    $document->loadXML($xml);
    $found = (new DOMXPath($document))->query('//item[@id mod 7 = 3]/name');
    foreach ($found as $node) {
        $node->parentNode->removeChild($node);
    }
    return $document->C14N() . $found->length;
});
show('simplexml', fn() => count(simplexml_load_string($xml)->xpath('//name')) . simplexml_load_string($xml)->asXML());
show('xmlreader', function () use ($xml) {
    $reader = XMLReader::XML($xml);
    for ($count = 0; $reader->read(); $count += $reader->depth) {
    }
    return (string)$count;
});
show('xmlwriter', function () {
    $writer = new XMLWriter();
    $writer->openMemory();
    for ($i = 0; $i < 5000; $i++) {
        $writer->writeElement("e$i", str_repeat('<&>', $i % 40));
    }
    return $writer->outputMemory();
});
show('xsl', function () use ($xml) {
    $sheet = new DOMDocument();
    $sheet->loadXML('<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/">'
        . '<o><xsl:for-each select="//item"><xsl:sort select="name"/><p><xsl:value-of select="name"/></p></xsl:for-each></o>'
        . '</xsl:template></xsl:stylesheet>');
    $list = new DOMDocument();
    $list->loadXML($xml);
    $processor = new XSLTProcessor();
    $processor->importStylesheet($sheet);
    return $processor->transformToXml($list);
});
show('xmlrpc', fn() => xmlrpc_decode(xmlrpc_encode(array_slice($data, 0, 100))) == array_slice($data, 0, 100));
show('soap', function () {
    $server = new SoapServer(null, ['uri' => 'urn:x']);
    $server->addFunction('strrev');
    ob_start();
    @$server->handle('<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><m:strrev xmlns:m="urn:x">'
        . '<string>' . str_repeat('abc', 9000) . '</string></m:strrev></e:Body></e:Envelope>');
    return ob_get_clean();
});
show('tidy', fn() => tidy_repair_string('<p>one<p>two<table><td>' . str_repeat('<b>x', 200), ['indent' => true]));
show('sqlite3', function () {
    $base = new SQLite3(':memory:');
    $base->exec('CREATE TABLE t(a INTEGER, b TEXT); BEGIN');
    $insert = $base->prepare('INSERT INTO t VALUES(?, ?)');
    for ($i = 0; $i < 5000; $i++) {
        $insert->bindValue(1, $i * 7919 % 5003);
        $insert->bindValue(2, str_repeat('x', $i % 200));
        $insert->execute();
    }
    $base->exec('COMMIT; CREATE INDEX i ON t(a)');
    return serialize($base->querySingle('SELECT sum(a), sum(length(b)), count(DISTINCT b) FROM t WHERE a % 3 = 1', true));
});
show('pdo_sqlite', function () {
    $base = new PDO('sqlite::memory:');
    $base->exec('CREATE TABLE t(a)');
    $base->sqliteCreateFunction('twice', fn($x) => $x . $x);
    for ($i = 0; $i < 300; $i++) {
        $base->exec("INSERT INTO t VALUES('row $i')");
    }
    return $base->query('SELECT twice(a) FROM t ORDER BY a DESC')->fetchAll();
});
show('gd', function () {
    $image = imagecreatetruecolor(400, 300);
    for ($i = 0; $i < 500; $i++) {
        imagefilledellipse($image, $i * 37 % 400, $i * 91 % 300, $i % 50, $i % 40, $i * 12345 % 0xffffff);
    }
    imagefilter($image, IMG_FILTER_GAUSSIAN_BLUR);
    ob_start();
    imagepng(imagescale(imagerotate($image, 30, 0), 200));
    $made = ob_get_clean();
    return imagesx(imagecreatefromstring($made)) . bin2hex(substr($made, -2000));
});
show('imagick', function () {
    $image = new Imagick();
    $image->newImage(200, 150, new ImagickPixel('red'));
    $draw = new ImagickDraw();
    $draw->setFillColor('blue');
    $draw->circle(100, 75, 40, 30);
    $image->drawImage($draw);
    $image->blurImage(3, 2);
    $image->resizeImage(77, 55, Imagick::FILTER_LANCZOS, 1);
    return $image->getImageSignature();
});
show('openssl', function () use ($text) {
    $key = openssl_pkey_new(['private_key_bits' => 1024]);
    openssl_sign($text, $signature, $key);
    $sealed = openssl_encrypt($text, 'aes-256-cbc', str_repeat('k', 32), 0, str_repeat('i', 16));
    return openssl_verify($text, $signature, openssl_pkey_get_details($key)['key']) . $sealed;
});
show('sodium', fn() => sodium_crypto_secretbox_open(sodium_crypto_secretbox($text, str_repeat('n', 24), str_repeat('k', 32)),
    str_repeat('n', 24), str_repeat('k', 32)) === $text);
show('phar-zip', function () use ($text) {
    $path = tempnam(sys_get_temp_dir(), 'zip');
    $archive = new ZipArchive();
    $archive->open($path, ZipArchive::OVERWRITE);
    for ($i = 0; $i < 50; $i++) {
        $archive->addFromString("f$i", substr($text, $i * 1000, 5000));
    }
    $archive->close();
    $archive->open($path);
    return $archive->numFiles . $archive->getFromName('f33') . (unlink($path) ? '' : 'stays');
});
show('curl', function () use ($text) {
    $path = tempnam(sys_get_temp_dir(), 'curl');
    file_put_contents($path, $text);
    $many = curl_multi_init();
    $got = [];
    for ($i = 0; $i < 20; $i++) {
        $one = curl_init("file://$path");
        curl_setopt($one, CURLOPT_RETURNTRANSFER, true);
        curl_multi_add_handle($many, $one);
        $got[] = $one;
    }
    do {
        curl_multi_exec($many, $running);
    } while ($running);
    unlink($path);
    return array_map(fn($one) => hash('md5', curl_multi_getcontent($one)), $got);
});
show('ds', function () {
    $map = new Ds\Map();
    $queue = new Ds\PriorityQueue();
    for ($i = 0; $i < 5000; $i++) {
        $map->put("k" . $i * 31 % 5000, new Ds\Vector([$i]));
        $queue->push($i, $i * 7919 % 5003);
    }
    return $map->keys()->join(',') . implode(',', $queue->toArray());
});
show('spl', function () {
    $heap = new SplMinHeap();
    $list = new SplDoublyLinkedList();
    for ($i = 0; $i < 5000; $i++) {
        $heap->insert($i * 7919 % 5003);
        $list->unshift($i);
    }
    return implode(',', iterator_to_array($heap, false)) . count($list);
});
show('ast', fn() => count(ast\parse_code(str_repeat('function f($a) { return $a ? [1, 2] : "x"; }', 1), 90)->children)
    . json_encode(ast\parse_code('<?php ' . str_repeat('$a = f($b + 1)["k"]; ', 500), 90)));
show('tokenizer', fn() => count(token_get_all('<?php ' . str_repeat('$a = f($b + 1)["k"]; ', 2000))));
show('fileinfo', fn() => (new finfo(FILEINFO_MIME))->buffer("\x89PNG\r\n\x1a\n\0\0\0\rIHDR" . str_repeat("\0", 99)));
show('ffi', function () {
    $libc = FFI::cdef('void *malloc(size_t); void *realloc(void *, size_t); void free(void *); char *strdup(const char *);');
    for ($i = 1; $i < 2000; $i++) {
        $libc->free($libc->realloc($libc->malloc($i), $i * 3));
    }
    $copy = $libc->strdup('allocated by the C library');
    $string = FFI::string($copy);
    $libc->free($copy);
    return $string;
});
show('apcu', fn() => apcu_enabled() ? [apcu_store('a', $data), apcu_fetch('a') === $data] : 'not for the command line');
show('redis', fn() => (new Redis())->_serialize($data));
show('mongodb', fn() => MongoDB\BSON\toRelaxedExtendedJSON(MongoDB\BSON\fromPHP(array_slice($data, 0, 200))));
show('mailparse', function () {
    $mail = mailparse_msg_create();
    mailparse_msg_parse($mail, "Content-Type: multipart/mixed; boundary=b\n\n" . str_repeat("--b\nX: y\n\nbody\n", 50) . "--b--\n");
    return mailparse_msg_get_structure($mail);
});
show('uuid', fn() => uuid_is_valid(uuid_create(UUID_TYPE_RANDOM)) . uuid_parse('b4c7a1b8-2f5d-4d5e-9a53-6e8f0c1d2e3f'));
show('pspell-enchant', fn() => [is_object(enchant_broker_init()), is_object(@pspell_config_create('en'))]);
show('posix', fn() => posix_getpwuid(0)['name'] . posix_getgrgid(0)['name']);
show('pcntl', function () {
    $child = pcntl_fork();
    if ($child === 0) {
        $many = records(1000);
        posix_kill(posix_getpid(), count($many) === 1000 ? SIGKILL : SIGTERM); // without what PHP does at its end
    }
    pcntl_waitpid($child, $status);
    return (string)pcntl_wtermsig($status);
});
show('sockets', function () use ($text) {
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
    $got = '';
    for ($at = 0; $at < 200000; $at += 20000) {
        socket_write($pair[0], substr($text, $at, 20000));
        for ($left = 20000; $left > 0; $left -= strlen($piece)) {
            $got .= $piece = socket_read($pair[1], $left);
        }
    }
    return $got;
});
show('shm', function () use ($data) {
    $shared = shm_attach(ftok(__FILE__, 'h'), 1 << 22);
    shm_put_var($shared, 1, array_slice($data, 0, 100));
    return shm_get_var($shared, 1) === array_slice($data, 0, 100) && shm_remove($shared);
});
show('generators', fn() => array_sum(iterator_to_array((function () {
    for ($i = 0; $i < 20000; $i++) {
        yield $i => strlen(str_repeat('x', $i % 100));
    }
})())));
show('cycles', function () {
    for ($i = 0; $i < 20000; $i++) {
        $a = new stdClass();
        $a->self = [$a, str_repeat('y', $i % 500)];
    }
    return gc_collect_cycles() >= 0;
});
