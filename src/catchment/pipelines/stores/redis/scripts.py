"""Lua scripts, which Redis runs for a store atomically: no other command runs in between.

Rows of a layer are hashes under `<index>:<key>`; `<index>` itself is a sorted set of their keys, by the end of their windows or
else by when they were written, in microseconds. Rows are sent as JSON, many to a command, because the client library is far
slower with as many small commands and answers. The text may hold any bytes, since neither side interprets them.
"""

from __future__ import annotations

from typing import Final

# KEYS: the view. ARGV: the table, then the columns. Gives the values of each row that a reader sees, false for NULL.
READ: Final = """
local version = redis.call('HGET', KEYS[1], 'version')
if not version then return '[]' end
local prefix = ARGV[1] .. ':' .. version .. ':'
local shown_until = redis.call('HGET', KEYS[1], 'until')
local rows = {}
local function add(index, from, to)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', index, from, to)) do
    rows[#rows + 1] = redis.call('HMGET', index .. ':' .. key, unpack(ARGV, 2))
  end
end
if shown_until and shown_until ~= '' then
  add(prefix .. 'batch', '-inf', shown_until)
  add(prefix .. 'speed', '(' .. shown_until, '+inf')
else
  add(prefix .. 'speed', '-inf', '+inf')
end
if #rows == 0 then return '[]' end
return cjson.encode(rows)
"""

# The end of a script for a piece of a batch: it counts finished pieces, if there is a key for that.
_COUNTED: Final = "if KEYS[2] then redis.call('INCR', KEYS[2]) end"

# KEYS: an index, and where pieces are counted. ARGV: the columns, and rows, of which each is key, score and values. A row takes the
# place of one with its key. A hash cannot be empty, but a row without a key may be NULL throughout.
PUT: Final = f"""
local columns = cjson.decode(ARGV[1])
for _, row in ipairs(cjson.decode(ARGV[2])) do
  local fields = {{}}
  for position, column in ipairs(columns) do
    local value = row[position + 2]
    if value ~= cjson.null then
      fields[#fields + 1] = column
      fields[#fields + 1] = value
    end
  end
  if #fields == 0 then fields = {{'__empty', '1'}} end
  local name = KEYS[1] .. ':' .. row[1]
  redis.call('DEL', name)
  redis.call('HSET', name, unpack(fields))
  redis.call('ZADD', KEYS[1], row[2], row[1])
end
{_COUNTED}
"""

# KEYS: an index. ARGV: from and to, as ZRANGEBYSCORE takes them. Deletes those rows; gives how many.
REMOVE: Final = """
local keys = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[2])
for _, key in ipairs(keys) do redis.call('DEL', KEYS[1] .. ':' .. key) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[2])
return #keys
"""

# KEYS: an index, and where pieces are counted. ARGV: keys. Deletes those rows.
DELETE: Final = f"""
for _, key in ipairs(cjson.decode(ARGV[1])) do
  redis.call('DEL', KEYS[1] .. ':' .. key)
  redis.call('ZREM', KEYS[1], key)
end
{_COUNTED}
"""

# KEYS: the number of a query's newest batch, and where its pieces were counted. ARGV: the number, and how many pieces it has. Redis
# goes on with a transaction of which a command has failed: a batch that is not whole is not noted, and so it is repeated.
NOTE: Final = """
local done = tonumber(redis.call('GET', KEYS[2]) or '0')
redis.call('DEL', KEYS[2])
if done ~= tonumber(ARGV[2]) then return redis.error_reply('ERR only ' .. done .. ' of ' .. ARGV[2] .. ' pieces were written') end
redis.call('SET', KEYS[1], ARGV[1])
"""

NO_VERSION: Final = 0
SWITCHED: Final = 1
# KEYS: the view, the versions, when each was shown until, and the number of a query's newest batch, if it matters. ARGV: a version,
# until, and the newest number that it may be. Gives 0 where there is no such version, 2 where the number is higher.
# The version that readers leave is noted too: the first one was shown without a switch.
SWITCH: Final = """
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then return 0 end
if KEYS[4] and tonumber(redis.call('GET', KEYS[4]) or '-1') > tonumber(ARGV[3]) then return 2 end
local live = redis.call('HGET', KEYS[1], 'version')
if live then redis.call('HSETNX', KEYS[3], live, '') end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'until', ARGV[2])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
return 1
"""

# KEYS and ARGV as before, but for the number. Gives 2 where the version was shown before, or a later one is.
SHOW_NEW: Final = (
    """
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then return 0 end
local live = redis.call('HGET', KEYS[1], 'version')
if live and tonumber(live) >= tonumber(ARGV[1]) or redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1 then return 2 end
"""
    + SWITCH
)

# KEYS: the view, the versions, when each was shown until, the indexes of the version. ARGV: the version. Gives 0 where it is shown.
DROP: Final = """
if redis.call('HGET', KEYS[1], 'version') == ARGV[1] then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
for position = 4, #KEYS do
  for _, key in ipairs(redis.call('ZRANGE', KEYS[position], 0, -1)) do redis.call('UNLINK', KEYS[position] .. ':' .. key) end
  redis.call('DEL', KEYS[position])
end
return 1
"""
