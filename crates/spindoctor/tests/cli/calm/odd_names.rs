//! Schemas, tables and accounts whose names are not ASCII: each command shows them as they are.

use serde_json::Value;
use spindoctor_lab::{Server, ServerSpec, Which};

use crate::lab::{on_both, runtime_beside, start};
use crate::program::printed;
use crate::row_wait::RowWait;

const SCHEMA: &str = "bücher";
const TABLE: &str = "straße 表";
const USER: &str = "jürgen";

/// Does something while three sessions wait for a row of such a table, behind one of such a user.
fn while_they_wait(which: Which, look: impl FnOnce(&Server, u64)) {
    let runtime = runtime_beside();
    let spec = ServerSpec { which, ..ServerSpec::default() };
    let server = runtime.block_on(start(&spec));
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
        let root = server.connect().await.expect("a session");
        let connect = async || server.connect_as(USER).await.expect("a session");
        // They end with the server.
        let changes: [String; 3] = std::array::from_fn(|_| change.clone());
        let row = RowWait::begin(root, connect, &["BEGIN", change.as_str()], &changes).await;
        let holder = u64::from(row.holder.id());
        tokio::task::block_in_place(|| look(&server, holder));
    });
}

#[test]
fn names_beyond_ascii_are_shown_as_they_are() {
    on_both(|which| {
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
    });
}
