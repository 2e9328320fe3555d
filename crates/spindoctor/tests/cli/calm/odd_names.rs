//! Schemas, tables and accounts whose names are not ASCII: each command shows them as they are.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use serde_json::Value;
use spindoctor_lab::{Home, Server, ServerSpec, Which};

use crate::program::printed;

const SCHEMA: &str = "bücher";
const TABLE: &str = "straße 表";
const USER: &str = "jürgen";
const PATIENCE: Duration = Duration::from_secs(60);

/// Does something while three sessions wait for a row of such a table, behind one of such a user.
fn while_they_wait(which: Which, look: impl FnOnce(&Server, u64)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let home = Home::open().expect("the lab has a folder");
    let spec = ServerSpec { which, ..ServerSpec::default() };
    let server = runtime.block_on(Server::start(&home, &spec, &|_| {})).expect("a server");
    runtime.block_on(async {
        let table = format!("`{SCHEMA}`.`{TABLE}`");
        let change = format!("UPDATE {table} SET `größe` = `größe` + 1 WHERE id = 1");
        let made = [
            format!("CREATE DATABASE `{SCHEMA}` CHARACTER SET utf8mb4"),
            format!("CREATE TABLE {table} (id INT PRIMARY KEY, `größe` INT) ENGINE = InnoDB"),
            format!("INSERT INTO {table} VALUES (1, 1)"),
            format!("CREATE USER '{USER}'@localhost"),
            format!("GRANT ALL ON `{SCHEMA}`.* TO '{USER}'@localhost"),
        ];
        server.execute(made).await.expect("such names are allowed");
        let mut holder = server.connect_as(USER).await.expect("a session");
        for statement in ["BEGIN", change.as_str()] {
            holder.query_drop(statement).await.expect("it may");
        }
        for _ in 0..3 {
            let mut waiter = server.connect_as(USER).await.expect("a session");
            let change = change.clone();
            // It ends with the server.
            tokio::spawn(async move { drop(waiter.query_drop(change).await) });
        }
        let waiting = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
        let begun = Instant::now();
        while server.ask(waiting).await.expect("an answer").as_deref() != Some("3") {
            assert!(begun.elapsed() < PATIENCE, "three sessions wait");
            // InnoDB shows the same transactions again to those who come back within 100 ms.
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        let holder = u64::from(holder.id());
        tokio::task::block_in_place(|| look(&server, holder));
    });
}

#[test]
fn names_beyond_ascii_are_shown_as_they_are() {
    for which in [Which::Mysql, Which::Mariadb] {
        while_they_wait(which.clone(), |server, holder| {
            let words = |line: &str| {
                let socket = server.socket().display();
                let (text, code) = printed(&format!("{line} -u root -S {socket} --no-defaults"));
                assert_eq!(code, 0, "{which:?}: {line}: {text}");
                text
            };
            let json = |line: &str| serde_json::from_str::<Value>(&words(line)).expect("JSON");

            let locks = json("locks --json");
            let root = &locks["roots"][0];
            assert_eq!((&root["connection_id"], &root["user"]), (&holder.into(), &USER.into()), "{locks:#}");
            let object = root["holds"]["object"].as_str().unwrap_or_default();
            assert!(object.contains(&format!("{SCHEMA}.{TABLE}")), "{which:?}: {object}");

            let diagnosis = json("doctor --json --duration 3s --fail-on never");
            let finding = &diagnosis["findings"][0];
            assert_eq!(finding["cause"], "row-lock-pileup", "{which:?}: {diagnosis:#}");
            assert!(finding.to_string().contains(TABLE), "{which:?}: {finding:#}");

            let workload = json("workload --json --by digest --duration 2s");
            let key = workload["groups"][0]["key"].as_str().unwrap_or_default();
            assert!(key.contains(SCHEMA) && key.contains(TABLE), "{which:?}: {key}");

            let top = words("top --once --duration 2s --size 200x40 --screen locks");
            assert!(top.contains(USER), "{which:?}: {top}");
        });
    }
}
