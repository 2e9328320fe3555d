//! The list of captures, in the order in which they are made.

use super::Step::{AtSource, Follow, In, Leave, Many, Prepared, Repeat, Running, Send, Try, Until};
use super::{Capture, Read, Step};

/// A shop, and what MySQL calls a user who may do anything.
const SHOP: Step = In(
    "root",
    &[
        "CREATE DATABASE shop",
        "CREATE TABLE shop.stock (id INT PRIMARY KEY, n INT, INDEX (n)) ENGINE = InnoDB",
        "INSERT INTO shop.stock VALUES (1, 10), (2, 20), (3, 30), (4, 40)",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, stock INT, who VARCHAR(40), \
         FOREIGN KEY (stock) REFERENCES shop.stock (id)) ENGINE = InnoDB",
        "CREATE TABLE shop.old_log (id INT PRIMARY KEY AUTO_INCREMENT, line TEXT) ENGINE = MyISAM",
        "INSERT INTO shop.old_log VALUES (1, 'first'), (2, 'second')",
    ],
);

/// 2^13 rows without a recursive query, which old servers do not have.
const MANY_ROWS: Step = In(
    "root",
    &[
        "CREATE TABLE shop.many (id INT PRIMARY KEY AUTO_INCREMENT, n INT, filler CHAR(80)) ENGINE = InnoDB",
        "INSERT INTO shop.many (n, filler) VALUES (1, 'row of a table that is larger than a page')",
        "INSERT INTO shop.many (n, filler) SELECT n + 1, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 2, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 4, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 8, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 16, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 32, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 64, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 128, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 256, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 512, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 1024, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 2048, filler FROM shop.many",
        "INSERT INTO shop.many (n, filler) SELECT n + 4096, filler FROM shop.many",
    ],
);

/// What metadata locks and prepared statements are seen by is off where servers are installed: MySQL 5.7, MariaDB.
const INSTRUMENTS: &[&str] =
    &["--loose-performance-schema=ON", "--loose-performance-schema-instrument=wait/lock/metadata/sql/mdl=ON"];

/// A capture as most are.
const USUAL: Capture = Capture {
    name: "",
    trouble: "",
    on: |_| true,
    options: &[],
    quota_cpus: None,
    steps: &[],
    status_has: "",
    read: Read::Moment,
};

/// Every capture.
pub const CAPTURES: &[Capture] = &[
    Capture {
        name: "calm",
        trouble: "none: two sessions that idle and one that reads, on a server as it is installed",
        steps: &[
            SHOP,
            In("shop", &["SELECT * FROM shop.stock", "SELECT COUNT(*) FROM shop.orders"]),
            In("tcp", &["SELECT 1"]),
            Many("report", 1, "SELECT SLEEP(60)"),
            Running(1, "SELECT SLEEP"),
        ],
        read: Read::Everything,
        ..USUAL
    },
    Capture {
        name: "row-lock-pile-up",
        trouble: "an idle transaction of `batch` holds the row 1 of shop.stock, five sessions of `shop` want it",
        options: INSTRUMENTS,
        steps: &[
            SHOP,
            In("batch", &["BEGIN", "UPDATE shop.stock SET n = 9 WHERE id = 1"]),
            Many("shop", 5, "UPDATE shop.stock SET n = n + {n} WHERE id = 1"),
            Running(5, "UPDATE"),
        ],
        read: Read::Stacks,
        ..USUAL
    },
    Capture {
        name: "metadata-lock-pile-up",
        trouble: "`report` idles in a transaction that read shop.stock, an ALTER TABLE of `dba` waits for it, and four \
                  readers of `shop` wait behind that",
        options: INSTRUMENTS,
        steps: &[
            SHOP,
            In("report", &["BEGIN", "SELECT * FROM shop.stock"]),
            Many("dba", 1, "ALTER TABLE shop.stock ADD COLUMN m INT"),
            Running(1, "ALTER"),
            Many("shop", 4, "SELECT * FROM shop.stock WHERE id = {n}"),
            Running(4, "SELECT * FROM shop.stock"),
        ],
        ..USUAL
    },
    Capture {
        name: "global-read-lock",
        trouble: "`backup` idles with FLUSH TABLES WITH READ LOCK, three writers of `shop` wait",
        options: INSTRUMENTS,
        steps: &[
            SHOP,
            In("backup", &["FLUSH TABLES WITH READ LOCK"]),
            Many("shop", 3, "UPDATE shop.stock SET n = {n} WHERE id = 2"),
            Running(3, "UPDATE"),
        ],
        ..USUAL
    },
    Capture {
        name: "table-lock-pile-up",
        trouble: "`report` reads a MyISAM table for a minute, three writers and a reader of `shop` wait",
        steps: &[
            SHOP,
            Many("report", 1, "SELECT SLEEP(30) FROM shop.old_log"),
            Running(1, "SELECT SLEEP"),
            Many("shop", 3, "UPDATE shop.old_log SET line = 'changed by {n}' WHERE id = 1"),
            Running(3, "UPDATE"),
            Many("shop", 1, "SELECT * FROM shop.old_log"),
            Running(1, "SELECT *"),
        ],
        ..USUAL
    },
    Capture {
        name: "deadlock",
        trouble: "two sessions of `shop` took the rows 1 and 2 of shop.stock in opposite order; one was rolled back",
        steps: &[
            SHOP,
            In("shop:a", &["BEGIN", "UPDATE shop.stock SET n = 1 WHERE id = 1"]),
            In("shop:b", &["BEGIN", "UPDATE shop.stock SET n = 2 WHERE id = 2"]),
            Send("shop:a", "UPDATE shop.stock SET n = 1 WHERE id = 2"),
            Running(1, "UPDATE"),
            Try("shop:b", &["UPDATE shop.stock SET n = 2 WHERE id = 1"]),
        ],
        status_has: "LATEST DETECTED DEADLOCK",
        ..USUAL
    },
    Capture {
        name: "foreign-key-error",
        trouble: "`shop` ordered what is not in stock: a foreign key was violated",
        // Since 9.6 the server checks foreign keys above InnoDB, whose status then knows nothing of them.
        on: |version| !version.mysql_at_least(9, 6, 0),
        steps: &[SHOP, Try("shop", &["INSERT INTO shop.orders (stock, who) VALUES (77, 'Ann')"])],
        status_has: "LATEST FOREIGN KEY ERROR",
        read: Read::Status,
        ..USUAL
    },
    Capture {
        name: "xa-prepared",
        trouble: "a prepared XA transaction, whose client is gone or idles, holds the row 1 of shop.stock; two sessions \
                  of `shop` want it",
        options: INSTRUMENTS,
        steps: &[
            SHOP,
            In(
                "transfer",
                &[
                    "XA START 'transfer-17'",
                    "UPDATE shop.stock SET n = 5 WHERE id = 1",
                    "XA END 'transfer-17'",
                    "XA PREPARE 'transfer-17'",
                ],
            ),
            Many("shop", 2, "UPDATE shop.stock SET n = n - {n} WHERE id = 1"),
            Running(2, "UPDATE"),
        ],
        ..USUAL
    },
    Capture {
        name: "xa-prepared-client-gone",
        trouble: "a prepared XA transaction of a client that has gone holds the row 1 of shop.stock; two sessions of \
                  `shop` want it",
        // Before, a prepared transaction ended with its client: WL#6860, MDEV-742.
        on: |version| version.mysql_at_least(5, 7, 7) || version.mariadb_at_least(10, 5, 2),
        options: INSTRUMENTS,
        steps: &[
            SHOP,
            In(
                "transfer",
                &[
                    "XA START 'transfer-17'",
                    "UPDATE shop.stock SET n = 5 WHERE id = 1",
                    "XA END 'transfer-17'",
                    "XA PREPARE 'transfer-17'",
                ],
            ),
            Leave("transfer"),
            Many("shop", 2, "UPDATE shop.stock SET n = n - {n} WHERE id = 1"),
            Running(2, "UPDATE"),
        ],
        ..USUAL
    },
    Capture {
        name: "long-transaction",
        trouble: "`report` holds a snapshot open, so that nothing is purged while `batch` changes 8192 rows again and again",
        steps: &[
            SHOP,
            MANY_ROWS,
            In(
                "report",
                &[
                    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                    "BEGIN",
                    "SELECT COUNT(*) FROM shop.many",
                ],
            ),
            In(
                "batch",
                &[
                    "CREATE PROCEDURE shop.change_one_by_one() BEGIN DECLARE i INT DEFAULT 1; \
                     WHILE i <= 3000 DO UPDATE shop.many SET n = n + 1 WHERE id = i; SET i = i + 1; END WHILE; END",
                    "CALL shop.change_one_by_one()",
                ],
            ),
            Many("batch", 1, "UPDATE shop.many SET n = n + 1"),
        ],
        read: Read::Moment,
        ..USUAL
    },
    Capture {
        name: "semaphore-waits",
        trouble: "24 sessions of `shop` change the same pages, on a server that does not spin for latches",
        options: &[
            "--innodb-sync-spin-loops=0",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=8M",
            "--loose-sync-binlog=0",
        ],
        steps: &[
            SHOP,
            MANY_ROWS,
            Try("root", &["ALTER TABLE shop.many ADD INDEX (n), ADD INDEX (filler, n)"]),
            Repeat(
                "shop",
                24,
                "INSERT INTO shop.many (n, filler) SELECT RAND() * 10000, UUID() FROM shop.stock a, shop.stock b, shop.stock c",
            ),
        ],
        status_has: "has waited at",
        // MariaDB has no list of those who wait for latches since 10.6 (MDEV-24142).
        on: |version| !version.mariadb_at_least(10, 6, 0),
        read: Read::Status,
        ..USUAL
    },
    Capture {
        name: "full-process-list",
        trouble: "40 sessions of `shop` idle, 12 over TCP, 6 of `report` and one procedure of `batch` run, the event scheduler is on",
        options: &["--event-scheduler=ON", "--max-connections=80"],
        steps: &[
            SHOP,
            In(
                "root",
                &[
                    "CREATE PROCEDURE shop.nightly() BEGIN DECLARE i INT DEFAULT 0; WHILE i < 60 DO DO SLEEP(1); SET i = i + 1; END WHILE; END",
                ],
            ),
            Many("shop", 40, "SELECT {n}"),
            Many("tcp", 12, "SELECT n FROM shop.stock WHERE id = {n}"),
            Many("report", 6, "SELECT SLEEP(60), 'a statement\nof several lines; it''s number {n}'"),
            Many("batch", 1, "CALL shop.nightly()"),
            Running(6, "SELECT SLEEP"),
        ],
        ..USUAL
    },
    Capture {
        name: "prepared-statements",
        trouble: "6 sessions of `shop` run prepared statements of the binary protocol, 2 of `report` with PREPARE and EXECUTE",
        options: INSTRUMENTS,
        steps: &[
            SHOP,
            MANY_ROWS,
            Prepared("shop", 4, "SELECT COUNT(*) FROM shop.many WHERE n % 7 = ? AND filler LIKE '%page%'"),
            Prepared("shop:slow", 2, "SELECT SLEEP(20 + ?)"),
            In(
                "report",
                &[
                    "PREPARE nightly FROM 'SELECT SLEEP(?), COUNT(*) FROM shop.many WHERE n > 17'",
                    "SET @s = 60",
                ],
            ),
            Send("report", "EXECUTE nightly USING @s"),
        ],
        ..USUAL
    },
    Capture {
        name: "replica-lag",
        trouble: "a replica whose applier waits for a table that `report` locked",
        options: &["--skip-slave-start", "--relay-log=relay"],
        steps: &[
            Follow(""),
            AtSource(
                "",
                &[
                    "CREATE DATABASE shop",
                    "CREATE TABLE shop.stock (id INT PRIMARY KEY, n INT) ENGINE = InnoDB",
                    "INSERT INTO shop.stock VALUES (1, 10)",
                ],
            ),
            Until("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop'", "1"),
            Until("SELECT COUNT(*) FROM shop.stock", "1"),
            In("report", &["LOCK TABLES shop.stock WRITE"]),
            AtSource(
                "",
                &[
                    "UPDATE shop.stock SET n = 11",
                    "UPDATE shop.stock SET n = 12",
                    "INSERT INTO shop.stock VALUES (2, 20)",
                ],
            ),
            Until(
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'system user' AND STATE LIKE 'Waiting for table%lock'",
                "1",
            ),
        ],
        ..USUAL
    },
    Capture {
        name: "replica-stopped",
        trouble: "a replica whose applier stopped on a row that was there already (error 1062)",
        options: &["--skip-slave-start", "--relay-log=relay"],
        steps: &[
            Follow(""),
            AtSource(
                "",
                &[
                    "CREATE DATABASE shop",
                    "CREATE TABLE shop.stock (id INT PRIMARY KEY, n INT) ENGINE = InnoDB",
                ],
            ),
            Until("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop'", "1"),
            In("root", &["INSERT INTO shop.stock VALUES (1, 10)"]),
            AtSource("", &["INSERT INTO shop.stock VALUES (1, 10)"]),
        ],
        ..USUAL
    },
    Capture {
        name: "replica-of-two",
        trouble: "a replica that follows two sources, by the channels `north` and `south`",
        on: |version| version.mysql_at_least(5, 7, 6) || version.mariadb_at_least(10, 0, 0),
        options: &[
            "--skip-slave-start",
            "--relay-log=relay",
            "--loose-master-info-repository=TABLE",
            "--loose-relay-log-info-repository=TABLE",
        ],
        steps: &[
            Follow("north"),
            Follow("south"),
            AtSource("north", &["CREATE DATABASE north"]),
            AtSource("south", &["CREATE DATABASE south"]),
            Until(
                "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN ('north', 'south')",
                "2",
            ),
        ],
        ..USUAL
    },
    Capture {
        name: "names-of-every-kind",
        trouble: "a pile-up on tables whose names hold spaces, quotes, dots and letters of other scripts, with statements \
                  under ANSI_QUOTES, comments with apostrophes, and text that looks like a section of the InnoDB status",
        options: INSTRUMENTS,
        steps: &[
            In(
                "root",
                &[
                    "SET NAMES utf8",
                    "CREATE DATABASE `größe`",
                    "CREATE TABLE `größe`.`価格 list` (id INT PRIMARY KEY, `it's` VARCHAR(40), `a.b``c` INT) ENGINE = InnoDB",
                    "INSERT INTO `größe`.`価格 list` VALUES (1, 'x', 1), (2, 'y', 2)",
                ],
            ),
            In(
                "batch",
                &[
                    "SET NAMES utf8, SESSION sql_mode = 'ANSI_QUOTES'",
                    "BEGIN",
                    "UPDATE \"größe\".\"価格 list\" SET \"it's\" = 'held' WHERE id = 1",
                ],
            ),
            In("shop:1", &["SET NAMES utf8, SESSION sql_mode = 'ANSI_QUOTES'"]),
            Send(
                "shop:1",
                "UPDATE /* it's */ \"größe\".\"価格 list\" SET \"a.b`c\" = 7, \"it's\" = 'alice@example.com' WHERE id = 1",
            ),
            In("shop:2", &["SET NAMES utf8"]),
            Send(
                "shop:2",
                "UPDATE `größe`.`価格 list` SET `it's` = '\n---\nLOG\n---\nLog sequence number          99\n' WHERE id = 1",
            ),
            Running(2, "UPDATE"),
        ],
        ..USUAL
    },
    Capture {
        name: "status-with-locks",
        trouble: "a transaction of `batch` holds locks on some rows, with innodb_status_output_locks on",
        on: |version| version.mysql_at_least(5, 6, 16) || version.mariadb_at_least(10, 0, 14),
        options: &["--innodb-status-output-locks=ON"],
        steps: &[
            SHOP,
            In("batch", &["BEGIN", "UPDATE shop.stock SET n = n + 1 WHERE n >= 20"]),
            Many("shop", 2, "DELETE FROM shop.stock WHERE n = 30"),
            Running(2, "DELETE"),
        ],
        read: Read::Status,
        ..USUAL
    },
    Capture {
        name: "status-over-a-megabyte",
        trouble: "four transactions hold locks on 8192 rows, with innodb_status_output_locks on: the server leaves out a part of its status",
        // One of each line is enough for what is long.
        on: |version| {
            let (number, maria) = ((version.major, version.minor), version.is_mariadb());
            matches!((number, maria), ((5, 7), false) | ((9, _), false) | ((10, 2), true))
        },
        options: &["--innodb-status-output-locks=ON", "--innodb-buffer-pool-size=64M"],
        steps: &[
            SHOP,
            MANY_ROWS,
            // Each has rows of its own, and between them there are some that nobody has: a range locks the row behind it, too.
            // Writers: MySQL leaves transactions that only read out of its list.
            In("batch:1", &["BEGIN", "UPDATE shop.many SET n = n + 1 WHERE id < 3000"]),
            In("batch:2", &["BEGIN", "UPDATE shop.many SET n = n + 1 WHERE id BETWEEN 3100 AND 5900"]),
            In("batch:3", &["BEGIN", "UPDATE shop.many SET n = n + 1 WHERE id BETWEEN 6100 AND 8900"]),
            In("batch:4", &["BEGIN", "UPDATE shop.many SET n = n + 1 WHERE id > 9100"]),
            Many("shop", 2, "DELETE FROM shop.many WHERE id = 7"),
            Running(2, "DELETE"),
        ],
        read: Read::Status,
        ..USUAL
    },
    Capture {
        name: "host-of-a-throttled-server",
        trouble: "a server in a cgroup with a CPU quota, with four sessions that compute",
        // The host is the same whatever the server is.
        on: |version| version.mysql_at_least(9, 0, 0) || version.mariadb_at_least(10, 11, 0),
        quota_cpus: Some(0.1),
        steps: &[
            SHOP,
            MANY_ROWS,
            Many(
                "shop",
                4,
                "SELECT COUNT(*) FROM shop.many a, shop.many b, shop.many c WHERE a.n + b.n + c.n < -{n}",
            ),
            Running(4, "SELECT COUNT"),
        ],
        read: Read::Host,
        ..USUAL
    },
];
