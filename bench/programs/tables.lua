-- Tables of records, strings that are built and cut, closures and coroutines.
local turns, seed, kept = tonumber(arg[1]), 1, {}
local function draw(n)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 7 % n + 1
end

local function record(i)
  return { id = i, name = "name" .. draw(100000), at = { draw(100), draw(100) }, next = function() return i + 1 end }
end

local function words(text)
  return coroutine.wrap(function()
    for word in text:gmatch("%a+%d*") do coroutine.yield(word) end
  end)
end

local total = 0
for turn = 1, turns do
  local list, parts = {}, {}
  for i = 1, 4000 do list[i] = record(i) end
  table.sort(list, function(a, b) return a.name < b.name end)
  for _, r in ipairs(list) do parts[#parts + 1] = r.name .. ":" .. r.at[1] .. ":" .. r.next() end
  local text, counts = table.concat(parts, " "):gsub("(%d)1", "%1one"), {}
  for word in words(text) do counts[word] = (counts[word] or 0) + 1 end
  kept[turn % 10] = { list, counts }
  total = total + #text
end
print(total, #kept)
