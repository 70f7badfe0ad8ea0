# Text cut into words, counted, grouped and written again; a list of structs that is sorted and mapped.
turns = Integer(ARGV[0])
seed = 1
draw = ->(n) { seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648; seed / 7 % n }
letters = ("a".."z").to_a
Entry = Struct.new(:word, :count, :places)

kept = []
turns.times do
  text = Array.new(3000) { Array.new(1 + draw.(9)) { letters[draw.(26)] }.join }.join(" ")
  entries = text.split.each_with_index.group_by(&:first).map do |word, hits|
    Entry.new(word.capitalize, hits.size, hits.map(&:last))
  end
  lines = entries.sort_by { |e| [-e.count, e.word] }.map { |e| "#{e.word}: #{e.places.join(",")}" }
  kept << lines.to_h { |line| [line[/\A\w+/].to_sym.to_s, line.gsub(/[aeiou]/) { |v| v.upcase }] }
  kept.shift if kept.size > 12
end
puts kept.sum { |index| index.values.sum(&:size) }
