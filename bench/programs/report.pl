# Records read from text into hashes of lists, regrouped, sorted and printed into strings.
use strict;
use warnings;

my ($turns, $seed, %kept, $length) = ($ARGV[0], 1);
sub draw { $seed = ($seed * 1103515245 + 12345) % 2147483648; return int($seed / 7) % $_[0] }

for my $turn (1 .. $turns) {
    my $text = join '', map { sprintf "host%d\t%s\t%d\n", draw(500), join('/', map { draw(1000) } 0 .. draw(6)), draw(1e6) } 1 .. 3000;
    my %hosts;
    while ($text =~ /^(\w+)\t(\S+)\t(\d+)$/mg) {
        push @{ $hosts{$1} }, { path => $2, size => $3, parts => [split m{/}, $2] };
    }
    my @lines;
    for my $host (sort keys %hosts) {
        my @sorted = sort { $a->{size} <=> $b->{size} } @{ $hosts{$host} };
        push @lines, "$host: " . join ', ', map { join('.', reverse @{ $_->{parts} }) . "=$_->{size}" } @sorted;
    }
    $kept{ $turn % 8 } = { hosts => \%hosts, lines => \@lines };
    (my $page = join "\n", @lines) =~ s/(\d)(\d)/$2$1/g;
    $length += length $page;
}
print scalar(keys %kept), " $length\n";
