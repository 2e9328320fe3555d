//! No command shows a literal of a statement, or a text of a locked record, that was not asked for; and each shows an odd
//! statement in the same shape.

use std::path::Path;

use mysql_async::prelude::Queryable as _;
use spindoctor_lab::{Server, ServerSpec, Which};

use crate::lab::{runtime_beside, start};
use crate::program::{printed, spindoctor};
use crate::row_wait::RowWait;

/// Stand in the statements' literals, in their comments and in the locked record, and nowhere else.
const SECRETS: [&str; 3] = ["alice@example.com", "bob@example.com", "Mallory"];

/// The shape of all that wait; of the last one a server may keep no more than the beginning of what follows it.
pub(super) const SHAPE: &str = "UPDATE customers SET name = ? WHERE email = ?";

/// How the same odd texts begin where they are looked up; one whose literal ends where servers do not agree is shown no further.
const LOOKS_UP: &str = "SELECT email FROM customers WHERE name = ?";

/// What a statement has that a careless reader takes for something else, wherever a statement is written.
struct Odd {
    /// Before the table's name.
    comment: &'static str,
    /// Before the first literal.
    to_the_lines_end: &'static str,
    name: String,
    email: &'static str,
    more: String,
}

impl Odd {
    /// What waits for a row.
    fn update(&self) -> String {
        let Self { comment, to_the_lines_end, name, email, more } = self;
        format!("UPDATE {comment}customers SET {to_the_lines_end}name = {name} WHERE email = {email}{more}")
    }

    /// What is given to a command.
    fn select(&self) -> String {
        let Self { comment, to_the_lines_end, name, email, more } = self;
        format!(
            "SELECT email FROM {comment}customers WHERE {to_the_lines_end}name = {name} AND email = {email}{more}"
        )
    }
}

/// The one list of odd statements, in every command: a comment whose apostrophe is no quote; the other quotes; escapes and
/// doubled quotes; a comment to the line's end; characters that steer a terminal or begin an element; a text that is cut in a
/// literal.
fn odd() -> Vec<Odd> {
    let plain = || Odd {
        comment: "",
        to_the_lines_end: "",
        name: "'bob@example.com'".to_owned(),
        email: "'alice@example.com'",
        more: String::new(),
    };
    vec![
        Odd { comment: "/* it's Mallory's */ ", ..plain() },
        Odd { name: "\"bob@example.com\"".to_owned(), email: "\"alice@example.com\"", ..plain() },
        Odd { name: "'it\\'s ''\\\\''bob@example.com'".to_owned(), ..plain() },
        Odd { to_the_lines_end: "-- don't ask Mallory\n ", ..plain() },
        Odd { name: "'\u{1b}[2J</title><script>bob@example.com'".to_owned(), ..plain() },
        Odd {
            name: "'x'".to_owned(),
            more: format!(" AND name <> 'Mallory{}'", "y".repeat(3_000)),
            ..plain()
        },
    ]
}

/// Holds it, and what is idle shows as its last statement.
const HOLDS: &str = "SELECT /* don't */ name FROM customers WHERE email = 'alice@example.com' FOR UPDATE";

pub(super) fn is_clean(what: &str, text: &str) {
    for secret in SECRETS {
        let at = text.find(secret).map(|at| text[..at].chars().rev().take(200).collect::<Vec<_>>());
        let before = at.map(|chars| chars.into_iter().rev().collect::<String>());
        assert!(before.is_none(), "{what} shows {secret} behind: {}", before.unwrap_or_default());
    }
}

/// Nothing steers a terminal, and every odd statement that is shown whole has the one shape.
fn is_in_shape(what: &str, text: &str) {
    assert!(!text.contains('\u{1b}'), "{what} steers the terminal: {text}");
    for (at, found) in text.match_indices("UPDATE customers SET") {
        let shown: String = text[at..].chars().take(SHAPE.len()).collect();
        let is_cut = shown.contains('…') || shown.contains('\n') || ends_at_a_literal(&shown);
        assert!(shown == SHAPE || is_cut, "{what} shows {found}… as {shown:?}");
    }
}

/// Nobody knows the `sql_mode` of another session: a text that ends at different places under its modes is hidden to its end, and
/// nothing of the statement stands behind it.
fn ends_at_a_literal(shown: &str) -> bool {
    let rest = shown.strip_prefix("UPDATE customers SET name = ?").map(str::trim_start);
    rest.is_some_and(|rest| rest.starts_with(['<', '›', '"', '&', '|', ',', ';']))
}

pub(super) fn files_are_clean(what: &str, folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files_are_clean(what, &path),
            false => {
                let what = format!("{what}: {}", path.display());
                let bytes = std::fs::read(&path).expect("a file");
                // A page says where its names may be broken.
                is_clean(&what, &String::from_utf8_lossy(&bytes).replace("<wbr>", ""));
                if let Ok(text) = std::str::from_utf8(&bytes) {
                    is_in_shape(&what, &text.replace("<wbr>", ""));
                }
            }
        }
    }
}

/// Does something while one connection holds a row and each odd statement waits for it; so many there are.
pub(super) fn held_up(which: Which, look: impl FnOnce(&Server, usize)) {
    let runtime = runtime_beside();
    let spec = ServerSpec { which, ..ServerSpec::default() };
    let server = runtime.block_on(start(&spec));
    runtime.block_on(async {
        let made = [
            "CREATE DATABASE shop",
            "CREATE TABLE shop.customers (email VARCHAR(60) PRIMARY KEY, name VARCHAR(60)) ENGINE = InnoDB",
            "INSERT INTO shop.customers VALUES ('alice@example.com', 'x')",
        ];
        server.execute(made).await.expect("a table with a row");
        let root = server.connect().await.expect("a session");
        let connect = async || {
            let mut session = server.connect().await.expect("a session");
            for sql in ["USE shop", "SET innodb_lock_wait_timeout = 600"] {
                session.query_drop(sql).await.expect("it may be set");
            }
            session
        };
        let updates: Vec<String> = odd().iter().map(Odd::update).collect();
        let row = RowWait::begin(root, connect, &["BEGIN", HOLDS], &updates).await;
        tokio::task::block_in_place(|| look(&server, updates.len()));
        row.end().await;
    });
}

/// So many commands look at once: each of them waits, for the most part.
const AT_ONCE: usize = 3;

fn no_command_shows_one(which: Which) {
    held_up(which, |server, _| {
        let folder = tempfile::tempdir().expect("a folder");
        let connection = format!("-u root -S {} --no-defaults", server.socket().display());
        let looked = |line: &str, names: Option<&str>| {
            let output = spindoctor(&format!("{line} {connection}")).output().expect("the program runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            is_clean(line, &text);
            is_clean(&format!("{line} (standard error)"), &String::from_utf8_lossy(&output.stderr));
            if std::str::from_utf8(&output.stdout).is_ok() {
                is_in_shape(line, &text);
            }
            if let Some(name) = names {
                assert!(
                    text.contains(name),
                    "{line} did not look at it: {text}{}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        };
        let update = Some("UPDATE customers SET name");
        let top = "top --once --duration 2s --size 250x60 --screen";
        let (page, window) = (folder.path().join("a.html"), folder.path().join("a.json"));
        let files = format!("--html {} --save-window {}", page.display(), window.display());
        let profile = folder.path().join("a.spinprof");
        let mut lines: Vec<(String, Option<&str>)> = vec![
            ("workload --duration 1s".to_owned(), update),
            ("workload --duration 1s --json".to_owned(), update),
            (format!("{top} threads"), update),
            (format!("stacks --duration 1s --save {}", profile.display()), None),
            (format!("doctor --duration 2s --fail-on never {files}"), None),
            ("doctor --duration 2s --fail-on never --json".to_owned(), Some("customers")),
        ];
        let formats = ["text", "json", "dot", "svg"];
        lines.extend(formats.map(|format| (format!("locks --format {format}"), Some("customers"))));
        let kinds = ["digest", "table", "state", "user"];
        lines.extend(kinds.map(|by| (format!("workload --duration 1s --by {by}"), None)));
        lines.extend(["overview", "queries", "locks"].map(|screen| (format!("{top} {screen}"), None)));
        let formats = ["text", "folded", "svg", "pprof", "speedscope", "firefox", "dot", "json"];
        lines.extend(formats.map(|it| (format!("stacks --duration 1s --by digest --format {it}"), None)));
        for some in lines.chunks(AT_ONCE) {
            std::thread::scope(|scope| {
                for (line, name) in some {
                    let looked = &looked;
                    scope.spawn(move || looked(line.as_str(), *name));
                }
            });
        }
        files_are_clean("doctor", folder.path());

        let list = folder.path().join("servers");
        std::fs::write(&list, format!("{}\n", server.socket().display())).expect("a list");
        let fleet = |line: &str, name: Option<&str>| {
            let line = format!("{line} --servers {} -u root --no-defaults", list.display());
            let output = spindoctor(&line).output().expect("the program runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            is_clean(&line, &text);
            is_in_shape(&line, &text);
            is_clean(&format!("{line} (standard error)"), &String::from_utf8_lossy(&output.stderr));
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(name.is_none_or(|name| text.contains(name)), "{line} did not look at it: {text}{said}");
        };
        fleet("fleet top --once", Some("UPDATE customers SET name"));
        fleet("fleet top --group", Some("UPDATE customers SET name"));
        fleet("fleet doctor", Some("row-lock-pileup"));
        fleet("fleet doctor --json", Some("row-lock-pileup"));

        for sql in odd().iter().map(Odd::select) {
            let sql = sql.as_str();
            let mut command = spindoctor(&format!("indexes --database shop --json --no-stacks {connection}"));
            let output = command.args(["--statement", sql]).output().expect("the program runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let notes = String::from_utf8_lossy(&output.stderr).into_owned();
            is_clean(sql, &text);
            is_clean(sql, &notes);
            assert!(text.contains(LOOKS_UP), "{sql}: {text}{notes}");
        }

        // Asked for, they are shown.
        let (text, _) = printed(&format!("locks --literals --json {connection}"));
        assert!(text.contains("alice@example.com"), "{text}");
    });
}

#[test]
fn no_command_shows_a_literal_of_mysqls_statements() {
    no_command_shows_one(Which::Mysql);
}

#[test]
fn no_command_shows_a_literal_of_mariadbs_statements() {
    no_command_shows_one(Which::Mariadb);
}

#[test]
fn neither_a_recording_nor_what_is_made_of_it_has_one() {
    held_up(Which::Mysql, |server, _| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.sdrec");
        let connection = format!("-u root -S {} --no-defaults", server.socket().display());
        let recorded =
            spindoctor(&format!("record -o {} --duration 6s {connection}", file.display())).output();
        let recorded = recorded.expect("the program runs");
        is_clean("record", &String::from_utf8_lossy(&recorded.stdout));
        let name = file.display();
        let out = folder.path().join("csv");
        for line in [
            format!("workload --recording {name}"),
            format!("workload --recording {name} --json"),
            format!("top --once --size 250x60 --screen threads --replay {name}"),
            format!("top --once --size 250x60 --screen locks --replay {name}"),
            format!("top --once --size 250x60 --screen load --replay {name}"),
            format!("report {name} --from -1h --html {} --json", folder.path().join("r.html").display()),
            format!("export {name} --format csv --out {}", out.display()),
        ] {
            let output = spindoctor(&line).output().expect("the program runs");
            is_clean(&line, &String::from_utf8_lossy(&output.stdout));
            is_in_shape(&line, &String::from_utf8_lossy(&output.stdout));
        }
        let (text, _) = printed(&format!("workload --recording {name}"));
        assert!(text.contains("UPDATE customers SET name"), "{text}");
        files_are_clean("record, report, export", folder.path());
    });
}
