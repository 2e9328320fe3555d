-- One of sysbench's own workloads, whose events are counted for each client: sysbench prints their mean and their standard
-- deviation alone. WORKLOAD and WARMUP_S stand above this text.

require(WORKLOAD)

local ffi = require("ffi")
ffi.cdef[[
typedef struct { long seconds; long nanoseconds; } spindoctor_time;
int clock_gettime(int clock, spindoctor_time *now);
]]
local CLOCK_MONOTONIC = 1
local time = ffi.new("spindoctor_time")

local function now()
   ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
   return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

local own_event, own_thread_done = event, thread_done
-- Each client has these for itself.
local measured_from, events = nil, 0

function event(thread_id)
   measured_from = measured_from or now() + WARMUP_S
   own_event(thread_id)
   if now() >= measured_from then
      events = events + 1
   end
end

function thread_done(thread_id)
   io.stdout:write(string.format("spindoctor: a client did %d events\n", events))
   io.stdout:flush()
   if own_thread_done then
      own_thread_done(thread_id)
   end
end
