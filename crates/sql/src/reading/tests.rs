use proptest::prelude::*;

use super::*;

/// Statements that only read.
const READS: &[&str] = &[
    "SELECT 1",
    "  select @@read_only ;\n",
    "(SELECT 1) UNION (SELECT 2)",
    "-- why\nSHOW FULL PROCESSLIST",
    "# why\n/* and how */ show variables like 'group_replication_%'",
    "/* it's */ SELECT 1",
    "WITH a AS (SELECT 1) SELECT * FROM a",
    "WITH RECURSIVE a (n, m) AS (SELECT 1, 2 UNION ALL SELECT n + 1, m FROM a WHERE n < 5) SELECT * FROM a",
    "TABLE t",
    "VALUES ROW(1, 2)",
    "VALUES (1), (2)",
    "EXPLAIN ANALYZE SELECT 1",
    "EXPLAIN FORMAT=JSON SELECT 1",
    "EXPLAIN FOR CONNECTION 7",
    "EXPLAIN (SELECT 1)",
    "EXPLAIN EXTENDED SELECT 1",
    "SELECT 'it''s; DELETE', \"INTO OUTFILE\", `/*! x */`",
    r"SELECT 'it\'s'",
    "SELECT 1--1",
    "SELECT @@group_replication_group_name",
    "SELECT @a, @@session.sql_mode",
    "SELECT /*+ MAX_EXECUTION_TIME(10) */ 1",
    "SELECT /*+ INDEX(t k) NO_MRR(t) QB_NAME(`q`) */ a FROM t",
    "DESC t",
    "DESCRIBE d.t c",
    "DESC t 'a%'",
    "HELP 'SELECT'",
    "SELECT a, COUNT(*) FROM t JOIN d.u USING (id) WHERE (a, b) IN ((1, 2)) AND c NOT IN (SELECT 1) GROUP BY (a) HAVING (1)",
    "SELECT CAST(a AS DECIMAL(10, 2)), CAST(b AS DATETIME(6)), CONVERT(c, CHAR(5)), LEFT(d, 3), IF(a, 1, 2) FROM t",
    "SELECT SUM(a) OVER (PARTITION BY b ORDER BY c) FROM t PARTITION (p0)",
    "SELECT a FROM t WHERE MATCH (c) AGAINST ('x' IN BOOLEAN MODE)",
    "SELECT a FROM t USE INDEX (k) WHERE a > ANY (SELECT 1) AND EXISTS (SELECT 1)",
    "SELECT INSERT('a', 1, 1, 'b'), REPLACE('a', 'b', 'c'), TRUNCATE(1.5, 0), MOD(5, 2)",
    "SELECT j.a FROM JSON_TABLE('[]', '$[*]' COLUMNS (a VARCHAR(5) PATH '$')) AS j",
    "SELECT * FROM (SELECT 1, 2) AS d (a, b)",
    "SELECT LAST_INSERT_ID(), GTID_SUBSET('a', 'b'), IS_USED_LOCK('x')",
    "SELECT t.update, t.into, t.lock FROM t",
    "SHOW CREATE PROCEDURE p",
    "SHOW PROCEDURE STATUS WHERE Db = DATABASE()",
    "SHOW COUNT(*) WARNINGS",
    "SHOW ENGINE INNODB STATUS",
    "SHOW REPLICA STATUS FOR CHANNEL 'a'",
    "SHOW MASTER STATUS",
    "SELECT a FROM t ORDER BY a LIMIT 5 OFFSET 2",
];

/// Statements that act, or may.
const ACTS: &[&str] = &[
    "",
    ";",
    "-- nothing",
    "DELETE FROM t",
    "SET GLOBAL read_only = 0",
    "KILL 7",
    "/*! DELETE FROM t */",
    "SELECT 1 /*M!100000 INTO OUTFILE 'x' */",
    "SELECT * FROM t INTO OUTFILE '/tmp/x'",
    "SELECT * FROM t INTO /* x */ DUMPFILE '/tmp/x'",
    "SELECT 1 INTO @a",
    "SELECT a INTO b FROM t",
    "TABLE t INTO OUTFILE '/tmp/x'",
    "EXPLAIN ANALYZE DELETE FROM t",
    "EXPLAIN DELETE FROM t",
    "EXPLAIN UPDATE t SET a = 1",
    "EXPLAIN FORMAT=JSON INTO @a SELECT 1",
    "DESCRIBE INSERT INTO t VALUES (1)",
    "ANALYZE SELECT 1",
    "ANALYZE TABLE t",
    "CALL p()",
    "DO SLEEP(1)",
    "FLUSH TABLES",
    "HANDLER t OPEN",
    "LOAD DATA INFILE 'x' INTO TABLE t",
    "WITH a AS (SELECT 1) DELETE FROM t",
    "WITH a AS (SELECT 1) UPDATE t SET a = 1",
    "SELECT group_replication_set_as_primary('x')",
    "SELECT Group_Replication_Switch_To_Multi_Primary_Mode ()",
    "SELECT version_tokens_set('a=b')",
    "SELECT version_tokens_lock_exclusive('a', 5)",
    "SELECT load_rewrite_rules()",
    "SELECT service_get_write_locks('a', 'b', 1)",
    "SELECT audit_log_filter_remove_user('%')",
    "SELECT asynchronous_connection_failover_reset()",
    "SELECT sys_exec('rm -rf /')",
    "SELECT NEXTVAL(s)",
    "SELECT s.nextval FROM dual",
    "SELECT SETVAL(s, 5)",
    "SELECT NEXT VALUE FOR s",
    "SELECT SLEEP(5)",
    "SELECT sleep /* */ (5)",
    "SELECT BENCHMARK(1000000000, 1)",
    "SELECT GET_LOCK('x', 1)",
    "SELECT RELEASE_ALL_LOCKS()",
    "SELECT LOAD_FILE('/etc/passwd')",
    "SELECT MASTER_POS_WAIT('a', 1)",
    "SELECT WAIT_FOR_EXECUTED_GTID_SET('a')",
    "SELECT LAST_INSERT_ID(5)",
    "SELECT UUID_SHORT()",
    "SELECT @a := 5",
    "SELECT @a: = 5, @b :/**/= 6",
    "SELECT a FROM t FOR UPDATE",
    "SELECT a FROM t FOR SHARE",
    "SELECT a FROM t LOCK IN SHARE MODE",
    "SELECT a FROM t PROCEDURE ANALYSE()",
    "SELECT mine(a) FROM t",
    "SELECT d.mine(a) FROM t",
    "SELECT d.count(a) FROM t",
    "SELECT `count`(a) FROM t",
    "SELECT count (a) FROM t",
    "SELECT count/**/(a) FROM t",
    "SELECT \"mine\"(a) FROM t",
    "SELECT datetime(5)",
    "SELECT vector(5), bit(1)",
    "SELECT lateral(5)",
    "SELECT a, any(5)",
    "SELECT a FROM t WHERE a = any (5)",
    "SELECT over(5)",
    "SELECT 1, sleep(5) AS x",
    "SHOW VARIABLES WHERE SLEEP(5)",
    "SHOW STATUS WHERE Variable_name = mine()",
    "SHOW nothing_known",
    "VALUES (SLEEP(5))",
    "VALUES ROW(mine())",
    "SELECT /*+ SET_VAR(max_execution_time = 0) */ 1",
    "SELECT /*+ RESOURCE_GROUP(x) */ 1",
    "SELECT /*+ RESOURCE_GROUP (x) */ 1",
    "SELECT 1; DELETE FROM t",
    "SELECT 1 /* [ */; DELETE FROM t",
    "SELECT 1 /*[...]*/ ; DELETE FROM t",
    "SELECT 1 /*[...]*/ INTO OUTFILE '/tmp/x'",
    "'SELECT' 1",
    "\"SELECT\" 1",
    "`SELECT` 1",
    "SELECT 'cut",
    "SELECT 1 /* cut",
    "SELECT $$it's$$",
    // Where backslashes escape nothing, the quote ends before the words that count.
    r"SELECT '\' INTO OUTFILE '/tmp/x",
    r"SELECT '\', SLEEP(5), '",
    r#"SELECT "\", SLEEP(5), ""#,
];

#[test]
fn statements_that_read_pass() {
    for sql in READS {
        assert_eq!(check_reads(sql), Ok(()), "{sql}");
    }
}

#[test]
fn whatever_is_not_known_does_not_pass() {
    for sql in ACTS {
        assert!(check_reads(sql).is_err(), "{sql}");
    }
    let error = check_reads("UPDATE t SET a = 1").unwrap_err().to_string();
    assert!(error.starts_with("UPDATE is not one of SELECT, "), "{error}");
}

#[test]
fn a_function_of_the_other_flavour_is_named() {
    assert_eq!(built_in_elsewhere("SELECT NVL(a, 1) FROM t", false), Some("nvl"));
    assert_eq!(built_in_elsewhere("SELECT NVL(a, 1) FROM t", true), None);
    assert_eq!(built_in_elsewhere("SELECT GTID_SUBSET(a, b) FROM t", true), Some("gtid_subset"));
    assert_eq!(built_in_elsewhere("SELECT 'NVL(a)', COUNT(*) FROM t", false), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Whatever a name is that is on no list: a call of it does not pass, wherever it stands and however it is written.
    #[test]
    fn no_unknown_function_passes(
        name in "[a-zA-Z_][a-z_0-9$]{2,20}",
        gap in prop::sample::select(vec!["", " ", "/**/", "\n", "/* it's */", "-- x'\n", "#\n"]),
        around in prop::sample::select(vec![
            "SELECT {}", "SELECT 1 + {} FROM t", "SELECT a FROM t WHERE b = {}", "SELECT a FROM t WHERE b IN ({})",
            "SELECT COUNT({}) FROM t", "SHOW VARIABLES WHERE {}", "WITH x AS (SELECT {}) SELECT * FROM x", "VALUES ROW({})",
            "EXPLAIN SELECT {}", "SELECT CASE WHEN {} THEN 1 END", "SELECT a FROM t ORDER BY {}", "SELECT 'it''s', {}, 'b'",
            "SELECT a, (SELECT {}) FROM t", "SELECT /* it's */ {}", "SELECT INTERVAL {} DAY + NOW()", "SELECT -{}", "SELECT a.b, {}",
            "EXPLAIN FORMAT=JSON SELECT {}", "(SELECT {}) UNION SELECT 1", "SELECT a FROM t GROUP BY {} HAVING {}", "SELECT {} AS x",
        ]),
        with in prop::sample::select(vec!["5", "a", "'x'", "", "a, 5", "1+1", "@a", "NULL"]),
    ) {
        let lower = name.to_lowercase();
        prop_assume!(!functions::is_harmless(&name) && !BEFORE_BRACKET.contains(&lower.as_str()) && lower != "row");
        let sql = around.replace("{}", &format!("{name}{gap}({with})"));
        prop_assert!(check_reads(&sql).is_err(), "{sql}");
        let quoted = around.replace("{}", &format!("`{name}`{gap}({with})"));
        prop_assert!(check_reads(&quoted).is_err(), "{quoted}");
    }

    /// A statement that reads does not pass any more once something is put into it that acts.
    #[test]
    fn nothing_that_acts_hides_in_a_statement(
        reads in prop::sample::select(READS.to_vec()),
        acts in prop::sample::select(vec![
            " INTO OUTFILE 'x'", " INTO @a", "; DELETE FROM t", " /*! x */", " /*M! x */", " FOR UPDATE", ", SLEEP(5)", ", d.f(1)", ", @a := 1",
            ", f(1)", " LOCK IN SHARE MODE", ", \"f\"(1)", ", LAST_INSERT_ID(5)",
        ]),
        comment in prop::sample::select(vec!["", " /* it's */", " -- it's\n", " # \"\n"]),
    ) {
        let sql = format!("{}{comment}{acts}", without_end(reads));
        prop_assert!(check_reads(&sql).is_err(), "{sql}");
    }

    #[test]
    fn any_text_is_judged(sql in "\\PC{0,60}") {
        let _ = check_reads(&sql);
        let _ = check_reads(&format!("SELECT {sql}"));
        let _ = built_in_elsewhere(&sql, true);
    }
}

#[test]
fn a_statement_that_may_read_a_view_is_known() {
    for none in [
        "SELECT 1, 2",
        "SHOW FULL COLUMNS FROM v",
        "SELECT a FROM information_schema.tables WHERE b = 'x' GROUP BY a",
        "SELECT a FROM `Performance_Schema`.threads t JOIN information_schema.processlist p ON t.a = p.a",
        "SELECT a FROM (SELECT a FROM information_schema.tables) AS inside, information_schema.columns",
    ] {
        assert!(reads_no_view(none), "{none}");
    }
    for view in [
        "SELECT a FROM v",
        "SELECT a FROM mysql.user",
        "SELECT a FROM information_schema.tables, v",
        "SELECT a FROM information_schema.tables JOIN v",
        "SELECT a FROM information_schema.tables WHERE a IN (SELECT b FROM v)",
        "SELECT a FROM (SELECT a FROM information_schema.tables WHERE b) AS inside, v",
        "SELECT a FROM information_schema.tables USE INDEX FOR ORDER BY (a), v",
        "SELECT a FROM (v)",
        "SELECT a FROM information_schema",
        "TABLE v",
        "EXPLAIN SELECT 1",
        "DESCRIBE v",
    ] {
        assert!(!reads_no_view(view), "{view}");
    }
}
