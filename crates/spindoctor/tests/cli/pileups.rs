//! `spindoctor locks` on pile-ups of known shape: the right root, with the right number behind it.

use std::time::{Duration, Instant};

use serde_json::Value;
use spindoctor_lab::pileup::{Piled, Pileup, Root, find, pile_up};
use spindoctor_lab::{Home, PILEUPS, Which};
use spindoctor_model::Flavor;

use crate::program::{printed, spindoctor};

/// How long a busy machine may take until a look sees all of them wait.
const PATIENCE: Duration = Duration::from_secs(90);

/// Makes a pile-up and looks at it, again where a look came while somebody was between two waits.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn is_shown(name: &str, which: &Which) {
    let pileup = find(name).expect("a pile-up");
    if !pileup.needs.is_empty() && !rustix::process::geteuid().is_root() {
        println!("{name} is skipped: it needs {}", pileup.needs);
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let home = Home::open().expect("the lab has a folder");
        let piled = pile_up(&home, pileup, which, &|_| {}).await.expect("a pile-up");
        let line = format!("locks -u root -S {} --no-defaults --json", piled.server.socket().display());
        let start = Instant::now();
        loop {
            // The sessions go on meanwhile.
            let line = line.clone();
            let looked = tokio::task::spawn_blocking(move || printed(&line)).await;
            let (text, code) = looked.expect("the program runs");
            assert_eq!(code, 0, "{text}");
            let locks: Value = serde_json::from_str(&text).expect("JSON");
            match mismatch(&locks, pileup, &piled) {
                None => return,
                Some(what) => assert!(start.elapsed() < PATIENCE, "{what}: {locks:#}"),
            }
        }
    });
}

/// What is not as the pile-up was made.
fn mismatch(locks: &Value, pileup: &Pileup, piled: &Piled) -> Option<String> {
    let root = &locks["roots"][0];
    let is_root = |one: &Root| {
        // A stopped server does not list connections.
        root["connection_id"].as_u64().map_or_else(
            || root["thread_os_id"].as_u64() == Some(one.thread_os_id),
            |connection| connection == one.connection_id,
        )
    };
    let number = |name: &str| root[name].as_u64().unwrap_or_default();
    if !piled.roots.iter().any(is_root) {
        return Some(format!("the root is one of {:?}", piled.roots));
    }
    // Behind a stopped disk, threads of the server's own wait as well.
    let as_many = |found: u64, made: u64| found == made || (found > made && !pileup.needs.is_empty());
    let (directly, in_all) = (number("waiting_directly"), number("waiting_in_all"));
    if !as_many(in_all, pileup.in_all) {
        return Some(format!("{} wait in all, not {in_all}", pileup.in_all));
    }
    if pileup.directly.is_some_and(|made| !as_many(directly, made)) {
        return Some(format!("{:?} wait directly, not {directly}", pileup.directly));
    }
    let kinds = serde_json::to_value(pileup.kinds).expect("kinds have names");
    let is_one = kinds.as_array().is_some_and(|kinds| kinds.contains(&root["holds"]["kind"]));
    (!is_one).then(|| format!("they wait for a lock of kind {kinds}, not {}", root["holds"]))
}

macro_rules! pileups {
    ($($test:ident: $pileup:literal, $which:ident;)*) => {
        $(
            #[test]
            fn $test() {
                is_shown($pileup, &Which::$which);
            }
        )*
        pub(super) const TESTED: &[(&str, Which)] = &[$(($pileup, Which::$which)),*];
    };
}

pileups! {
    the_drop_of_a_table_of_mysql_holds_up_its_readers: "drop-table", Mysql;
    the_drop_of_a_table_of_mariadb_holds_up_its_readers: "drop-table", Mariadb;
    one_sync_of_mysql_holds_up_who_commits: "sync", Mysql;
    one_sync_of_mariadb_holds_up_who_commits: "sync", Mariadb;
}

/// Those that need no slow disk, which other users of the same file system may have to wait for.
mod calm {
    use super::{Which, is_shown};

    pileups! {
        the_idle_client_holds_up_a_row_of_mysql: "row", Mysql;
        the_idle_client_holds_up_a_row_of_mariadb: "row", Mariadb;
        the_idle_client_holds_up_a_ddl_of_mysql_and_200_readers: "chain", Mysql;
        the_idle_client_holds_up_a_ddl_of_mariadb_and_200_readers: "chain", Mariadb;
        the_backup_of_mysql_holds_up_who_writes: "global", Mysql;
        the_backup_of_mariadb_holds_up_who_writes: "global", Mariadb;
        the_idle_client_holds_up_who_wants_its_user_lock_of_mysql: "user", Mysql;
        the_idle_client_holds_up_who_wants_its_user_lock_of_mariadb: "user", Mariadb;
        the_idle_client_holds_up_the_appliers_of_mysql_that_commit_in_order: "commit-order", Mysql;
        the_idle_client_holds_up_the_appliers_of_mariadb_that_commit_in_order: "commit-order", Mariadb;
    }
}

/// The finding of the whole window is the one that was said early.
#[test]
fn a_pile_up_is_named_before_the_window_ends() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let home = Home::open().expect("the lab has a folder");
        let pileup = find("user").expect("a pile-up");
        let piled = pile_up(&home, pileup, &Which::Mysql, &|_| {}).await.expect("a pile-up");
        let line =
            format!("doctor -u root -S {} --no-defaults --duration 4s", piled.server.socket().display());
        let ran = tokio::task::spawn_blocking(move || spindoctor(&line).output().expect("the program runs"));
        let ran = ran.await.expect("it ends");
        let (said, report) = (String::from_utf8_lossy(&ran.stderr), String::from_utf8_lossy(&ran.stdout));
        let early: Vec<&str> = said.lines().filter(|line| line.contains(" s, preliminary: ")).collect();
        assert_eq!(early.len(), 1, "{said}");
        assert!(early[0].ends_with("(user-lock-pileup)"), "{said}");
        assert!(report.contains("1 CRITICAL") && report.contains("user-lock-pileup"), "{report}");
    });
}

#[test]
fn every_pile_up_is_looked_at_on_each_server_that_it_can_be_made_on() {
    for pileup in PILEUPS {
        for (flavor, which) in [(Flavor::Mysql, Which::Mysql), (Flavor::Mariadb, Which::Mariadb)] {
            let one = (pileup.name, which);
            let tested = TESTED.contains(&one) || calm::TESTED.contains(&one);
            assert_eq!(tested, pileup.flavors.contains(&flavor), "{} on {flavor}", pileup.name);
        }
    }
}
