//! What these tests set up alike: a server, a table of two rows, sessions that keep a lock, and sessions that wait for one.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use spindoctor_lab::{Home, Server, ServerSpec, Which};

/// A server with options of its own.
pub(super) async fn server(which: Which, options: &[&str]) -> Server {
    let spec = ServerSpec {
        which,
        options: options.iter().map(|&option| option.to_owned()).collect(),
        ..ServerSpec::default()
    };
    let home = Home::open().unwrap();
    Server::start(&home, &spec, &|line| println!("{line}")).await.unwrap()
}

/// A table with the rows 1 and 2.
pub(super) async fn shop(server: &Server) {
    server
        .execute([
            "CREATE DATABASE IF NOT EXISTS shop",
            "CREATE TABLE IF NOT EXISTS shop.stock (id INT PRIMARY KEY, n INT) ENGINE = InnoDB",
            "INSERT IGNORE INTO shop.stock VALUES (1, 10), (2, 10)",
        ])
        .await
        .unwrap();
}

/// A session that has run these statements and then idles, and its connection's id.
pub(super) async fn holder(server: &Server, statements: &[&str]) -> (Conn, u64) {
    let mut conn = server.connect().await.unwrap();
    for statement in statements {
        conn.query_drop(*statement).await.unwrap();
    }
    let id = u64::from(conn.id());
    (conn, id)
}

/// Runs a statement on a connection of its own, with this id, whatever comes of it.
pub(super) async fn run(server: &Server, statement: impl Into<String>) -> u64 {
    let mut conn = server.connect().await.unwrap();
    let id = u64::from(conn.id());
    let statement = statement.into();
    tokio::spawn(async move { drop(conn.query_drop(statement).await) });
    id
}
