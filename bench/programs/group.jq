# Records made, grouped, folded and written; strings of all sizes on the way.
[range($n) | {id: ., name: "name\(. * 7919 % 60013)", tags: [range(. % 5) | tostring]}]
| group_by(.name[-2:])
| map({key: .[0].name[-2:], value: {count: length, names: map(.name | ascii_upcase) | join(" ")}})
| from_entries
| tojson
| fromjson
| map_values(.names | split(" ") | map(ltrimstr("NAME")) | sort | length)
| add
