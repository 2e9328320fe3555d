-- Looks rows up by a column that has no index: each query reads the whole table for at most a few rows.

function thread_init()
   connection = sysbench.sql.driver():connect()
end

function event()
   connection:query("SELECT id FROM sbtest1 WHERE pad = 'no such pad " .. sysbench.rand.uniform(1, 1000) .. "'")
end
