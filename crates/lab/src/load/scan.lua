-- Looks rows up by an expression, which no index serves: each query reads the whole table for one row.

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   connection:query("SELECT c FROM sbtest1 WHERE id + 0 = " .. sysbench.rand.uniform(1, 10000))
end
