//! Statements that clients prepare on the server: `workload`, `top` and `doctor` see them as they see others, or say what they
//! do not see.
//!
//! Scans are tried on the six servers that CI has, and on those that SPINDOCTOR_SERVERS has; the rest on the lab's two usual ones.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mysql_async::prelude::Queryable as _;
use serde_json::Value;
use spindoctor_lab::{KNOWN, Server, ServerSpec, Which};

use crate::lab::{runtime_beside, start};
use crate::program::printed;

/// What the clients execute, and its beginning without blanks and quotes, which digests of the server's have in other places.
const SCAN: &str = "SELECT pad FROM shop.wide WHERE pad = ? AND CHAR_LENGTH(pad) > ?";
const SEEN: &str = "SELECTpadFROMshop.wide";
/// The value that is looked for.
const SECRET: &str = "alice@example.com";
/// Where a server does not show the text, the program says so.
const WITHOUT_TEXT: [&str; 2] = ["(prepared statements: this", "(a prepared statement"];

/// Does something while three clients execute a prepared statement again and again.
fn under_prepared(which: Which, statement: &'static str, look: impl FnOnce(&Server)) {
    let runtime = runtime_beside();
    let options = vec!["--performance-schema=ON".to_owned()];
    let spec = ServerSpec { which, options, ..ServerSpec::default() };
    let server = runtime.block_on(start(&spec));
    runtime.block_on(async {
        let mut made = vec![
            "CREATE DATABASE shop".to_owned(),
            "CREATE TABLE shop.wide (id INT AUTO_INCREMENT PRIMARY KEY, pad CHAR(60)) ENGINE = InnoDB"
                .to_owned(),
            "INSERT INTO shop.wide (pad) VALUES ('x')".to_owned(),
        ];
        // 16,384 rows.
        made.extend((0..14).map(|_| "INSERT INTO shop.wide (pad) SELECT 'x' FROM shop.wide".to_owned()));
        server.execute(made.iter().map(String::as_str)).await.expect("a table");
        let is_over = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = server.connect().await.expect("a session");
            let is_over = Arc::clone(&is_over);
            clients.push(tokio::spawn(async move {
                let prepared = client.prep(statement).await.expect("it can be prepared");
                while !is_over.load(Ordering::Relaxed) {
                    // Where the test has failed, its server is gone, and that failure is the one to read.
                    if client.exec_drop(&prepared, (SECRET, 5)).await.is_err() {
                        break;
                    }
                }
            }));
        }
        tokio::task::block_in_place(|| look(&server));
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.expect("it ends");
        }
    });
}

/// Those of SPINDOCTOR_SERVERS that have performance_schema with statements.
fn brought() -> impl Iterator<Item = Which> {
    const WITHOUT_STATEMENTS: [&str; 2] = ["mysql-5.5", "mariadb-10.1"];
    let brought = std::env::var_os("SPINDOCTOR_SERVERS").map(PathBuf::from);
    let names = KNOWN.iter().map(|known| known.name).filter(move |name| {
        let is_there = brought.as_ref().is_some_and(|folder| folder.join(name).is_dir());
        is_there && !WITHOUT_STATEMENTS.contains(name)
    });
    names.filter_map(Which::by_name)
}

/// Whether scans by prepared statements are seen, or said not to be. All commands look at once: the scans take the CPUs for as long.
fn scans_are_seen_on(which: &Which) {
    under_prepared(which.clone(), SCAN, |server| {
        let connection = format!("-u root -S {} --no-defaults", server.socket().display());
        let words = |line: &str| {
            let (text, _) = printed(&format!("{line} {connection}"));
            assert!(!text.contains(SECRET), "{which:?}: {line}: {text}");
            text
        };
        let is_shown = |line: &str, looks: u32| {
            let mut text = String::new();
            let is_there = (0..looks).any(|_| {
                text = words(line);
                let plain = text.replace(['`', ' '], "");
                plain.contains(SEEN) || WITHOUT_TEXT.iter().any(|said| text.contains(said))
            });
            assert!(is_there, "{which:?}: {line}: {text}");
        };
        std::thread::scope(|scope| {
            scope.spawn(|| is_shown("workload --duration 4s", 1));
            scope.spawn(|| is_shown("top --once --duration 4s --size 250x40 --screen queries", 1));
            // This screen is of one moment, in which all three clients may be between two statements.
            scope.spawn(|| is_shown("top --once --duration 2s --size 250x40 --screen threads", 8));
            let diagnosis = words("doctor --duration 6s --fail-on never --json");
            let diagnosis: Value = serde_json::from_str(&diagnosis).expect("JSON");
            let found = diagnosis["findings"].as_array().expect("a list");
            assert!(
                found.iter().any(|finding| finding["cause"] == "rows-read-waste"),
                "{which:?}: {diagnosis:#}"
            );
        });
    });
}

mod scans_by_prepared_statements_are_seen_or_said_not_to_be_on {
    use spindoctor_lab::Which;

    macro_rules! servers {
        ($($test:ident: $name:literal;)*) => {
            $(
                #[test]
                fn $test() {
                    super::scans_are_seen_on(&Which::by_name($name).expect("the lab knows it"));
                }
            )*
        };
    }

    servers! {
        mysql_5_7: "mysql-5.7";
        mysql_8_0_31: "mysql-8.0.31";
        mysql_9_7: "mysql-9.7";
        mariadb_10_5: "mariadb-10.5";
        mariadb_10_11: "mariadb-10.11";
        mariadb_11_8: "mariadb-11.8";
    }

    #[test]
    fn servers_that_were_brought() {
        super::brought().for_each(|which| super::scans_are_seen_on(&which));
    }
}

/// Thousands of statements a second, of which a look sees one at most.
#[test]
fn shares_of_few_sightings_are_said_to_say_little_and_the_servers_counts_stand_beside_them() {
    for which in [Which::Mysql, Which::Mariadb] {
        under_prepared(which.clone(), "SELECT CONCAT(?, ?)", |server| {
            let connection = format!("-u root -S {} --no-defaults", server.socket().display());
            // Fewer looks than FEW_SIGHTINGS, each of which sees one of the three at the most now and then.
            let (text, code) = printed(&format!("workload --duration 2s --hz 2 {connection}"));
            assert_eq!(code, 0, "{text}");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains("too few sightings: "), "{which:?}: {text}");
            assert!(
                text.contains("what the server counted itself: share at once each /s statement"),
                "{text}"
            );
        });
    }
}
