-- Strings, tables, closures, coroutines and pattern matching; prints name=value lines.
local function hash(text)
  local h = 5381
  for i = 1, #text do h = (h * 33 + text:byte(i)) % 4294967296 end
  return string.format("%08x", h)
end

local random = 12345
local function next_random(limit)
  random = (random * 1103515245 + 12345) % 2147483648
  return random % limit + 1
end

local words = {}
for i = 1, 60000 do words[i] = string.rep(string.char(96 + next_random(26)), next_random(40)) .. i end
table.sort(words)
print("sorted=" .. hash(table.concat(words, " ")))

local counts = {}
for _, word in ipairs(words) do
  local key = word:sub(1, 3)
  counts[key] = (counts[key] or 0) + 1
end
local keys = {}
for key, count in pairs(counts) do keys[#keys + 1] = key .. ":" .. count end
table.sort(keys)
print("counted=" .. hash(table.concat(keys, ",")))

local grown = ""
for i = 1, 4000 do grown = grown .. i .. "," end
print("grown=" .. hash(grown))
print("replaced=" .. hash((grown:gsub("(%d)(%d)", "%2%1"))))

local function producer(n)
  return coroutine.wrap(function() for i = 1, n do coroutine.yield({ i, tostring(i) }) end end)
end
local total = 0
for round = 1, 200 do
  for pair in producer(100) do total = total + pair[1] + #pair[2] end
end
print("coroutines=" .. total)

local tree
local function insert(node, key)
  if not node then return { key = key } end
  if key < node.key then node.left = insert(node.left, key) else node.right = insert(node.right, key) end
  return node
end
for i = 1, 50000 do tree = insert(tree, next_random(1000000)) end
local function depth(node) return node and 1 + math.max(depth(node.left), depth(node.right)) or 0 end
print("depth=" .. depth(tree))

local weak = setmetatable({}, { __mode = "v" })
for i = 1, 10000 do weak[i] = { i } end
tree, words = nil, nil
collectgarbage() collectgarbage()
local left = 0
for _ in pairs(weak) do left = left + 1 end
print("weak=" .. left)

local packed = {}
for i = 1, 3000 do packed[i] = string.pack(">i4 s2 d", i, ("x"):rep(i % 500), i / 7) end
print("packed=" .. hash(table.concat(packed)))
local compiled = 0
for i = 1, 3000 do compiled = compiled + load("local a = ... return a + " .. i)(1) end
print("compiled=" .. compiled)
