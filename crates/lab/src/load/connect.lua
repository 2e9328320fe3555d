-- A client that connects for each of its queries, as PHP pages without a pool do.

function thread_init()
   driver = sysbench.sql.driver()
end

function event()
   local connection = driver:connect()
   connection:query("SELECT c FROM sbtest1 WHERE id = " .. sysbench.rand.uniform(1, 100))
   connection:disconnect()
end
