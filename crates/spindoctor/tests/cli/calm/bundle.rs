//! `spindoctor bundle`: of recordings of real servers under load, read elsewhere, and of what people mistake for one.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use spindoctor_lab::{Server, Which};

use super::literals::{files_are_clean, held_up, is_clean};
use crate::lab::in_runtime;
use crate::program::{complained, printed, spindoctor, successful};
use crate::report::recording;

/// For a machine that has other work.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a bundle's folder is called.
const FOLDER: &str = "spindoctor-bundle";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// All of a bundle, unpacked as anybody would.
fn unpacked(bundle: &Path, into: &Path) -> PathBuf {
    let bytes = flate2::read::GzDecoder::new(File::open(bundle).expect("a file"));
    tar::Archive::new(bytes).unpack(into).expect("an archive");
    into.join(FOLDER)
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()))
}

#[test]
fn a_bundle_is_read_as_its_recording_in_another_folder() {
    let (here, there) = (folder(), folder());
    let file = recording(here.path());
    let bundle = here.path().join("db.tar.gz");
    let (summary, code) = printed(&format!("bundle {} --around 1 -o {}", file.display(), bundle.display()));
    assert_eq!(code, 0, "{summary}");
    assert!(summary.contains("90 samples, 1 event") && summary.contains("no server was named"), "{summary}");
    assert_eq!(fs::metadata(&bundle).expect("a file").mode() & 0o777, 0o600);
    let elsewhere = there.path().join("what.they.sent");
    fs::copy(&bundle, &elsewhere).expect("a copy");
    fs::remove_file(&file).expect("it was there");
    // Its name says nothing, and what was kept with the recording is kept with the bundle.
    let name = elsewhere.display();
    let page = there.path().join("page.html");
    let (report, code) = printed(&format!("report {name} --event 1 --html {}", page.display()));
    assert!(code == 0 && report.starts_with("Commits stopped for 3 s"), "{report}");
    assert!(report.contains("max_connections 151 → 1000"), "{report}");
    let (screen, code) = printed(&format!("top --once --size 120x40 --replay {name} --event 1"));
    // A second after its beginning, when 199 threads run and no commit ends.
    assert!(code == 0 && screen.contains("09:30:01 UTC") && screen.contains(" 199 "), "{screen}");
    let out = there.path().join("out");
    let (tables, code) = printed(&format!("export {name} --out {}", out.display()));
    assert!(code == 0 && tables.contains("453 rows"), "{tables}");
    let (diagnosis, code) = printed(&format!("doctor --fail-on never --json --from {name}"));
    let diagnosis: Value = serde_json::from_str(&diagnosis).expect("JSON");
    assert_eq!((code, &diagnosis["given"][0]["kind"]), (0, &Value::from("bundle")));
    assert!(diagnosis["given"][0]["says"].to_string().contains("event 1 of a recording"), "{diagnosis}");
    let (head, _) = printed(&format!("doctor --fail-on never --from {name}"));
    assert!(head.contains("what.they.sent: bundle") && head.contains("no server was"), "{head}");

    let inside = unpacked(&bundle, &there.path().join("unpacked"));
    let readme = text(&inside.join("README.txt"));
    assert!(readme.contains("It is about event 1") && readme.contains("without their literals"), "{readme}");
    assert!(!readme.contains('\u{202e}'), "the hostile host's name steers the page");
    assert!(text(&inside.join("variables.txt")).contains("max_connections\t1000\n"));
    assert!(text(&inside.join("status-begin.txt")).contains("uptime\t1000\n"));
    assert!(text(&inside.join("status-end.txt")).contains("uptime\t1089\n"));
    assert!(text(&inside.join("report.txt")).starts_with("Commits stopped for 3 s"));
    let manifest: Value = serde_json::from_str(&text(&inside.join("manifest.json"))).expect("JSON");
    assert_eq!(manifest["schema"], "spindoctor.bundle/1");

    // A part of a bundle is a bundle; what is plain is not compressed.
    let part = there.path().join("part.tar");
    let (summary, code) = printed(&format!("bundle {name} --last 10s -o {}", part.display()));
    assert!(code == 0 && summary.contains("11 samples, 0 events"), "{summary}");
    assert!(fs::read(&part).expect("a file").starts_with(b"spindoctor-bundle/manifest.json"));
    successful(&format!("report {} --from -1h --json", part.display()));
    let left = fs::read_dir(here.path()).expect("a folder").filter_map(Result::ok);
    let is_partial = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().ends_with(".partial");
    assert_eq!(left.filter(is_partial).count(), 0, "a file that is not whole is left");
}

#[test]
fn what_is_mistaken_gets_one_line() {
    let folder = folder();
    let file = recording(folder.path());
    let (name, place) = (file.display(), |name: &str| folder.path().join(name).display().to_string());
    let kept = place("kept");
    fs::write(&kept, "somebody's").expect("a file");
    let bundle = place("b.tar.gz");
    successful(&format!("bundle {name} --last 1m -o {bundle}"));
    for (line, reason) in [
        (format!("bundle {name} --around 7 -o {bundle}"), "has no event 7; the last is 1"),
        (
            format!("bundle {name} --from 2025-01-01 --to 2025-01-02 -o {bundle}"),
            "it reaches from 2026-07-01 09:29:00 UTC",
        ),
        (format!("bundle {name} --from 09:30 --to 09:29 -o {bundle}"), "is after --to"),
        (format!("bundle {name} --last 1m -o {kept}"), "is there and is not a bundle, so it is not replaced"),
        (format!("bundle {name} --last 1m -o {name}"), "is there and is not a bundle"),
        (format!("bundle {bundle} --last 1m -o {bundle}"), "is what is to be read"),
        (format!("bundle {name} --last 1m -o {}", place("b.html")), "ends in .html"),
        (format!("bundle {name} --last 1m -o -"), "not standard output"),
        (format!("bundle {kept} --last 1m -o {bundle}"), "is not a recording"),
        (format!("bundle {} --last 1m -o {bundle}", place("none")), "there is no recording at"),
    ] {
        let (why, code) = complained(&line);
        assert!(code == 2 && why.contains(reason) && why.lines().count() == 1, "{line}: {why}");
    }
    let (why, code) = complained(&format!("bundle {name} -o {bundle}"));
    assert!(code == 2 && why.contains("--around"), "{why}");
    assert_eq!(fs::read_to_string(&kept).expect("a file"), "somebody's");
    // It is whole still, and another one takes its place.
    successful(&format!("bundle {name} --around 1 -o {bundle}"));

    let whole = fs::read(&bundle).expect("a file");
    let cut = place("cut");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("a file");
    for line in [
        format!("report {cut}"),
        format!("top --once --replay {cut}"),
        format!("workload --recording {cut}"),
        format!("doctor --from {cut}"),
        format!("export {cut} --out {}", place("out")),
    ] {
        let (why, code) = complained(&line);
        assert!(code == 2 && why.contains("is a bundle that cannot be used"), "{line}: {why}");
        assert_eq!(why.lines().count(), 1, "{why}");
    }
}

/// While sessions wait for a row and somebody reads: records with literals, packs the event, looks at all of it.
fn no_literal_leaves(which: Which) {
    held_up(which, |server, _| {
        let (here, there) = (folder(), folder());
        let file = here.path().join("a.sdrec");
        let connection = format!("-u root -S {} --no-defaults", server.socket().display());
        prepare(server);
        let is_over = AtomicBool::new(false);
        let bundle = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Longer than all of it takes; and not for ever where a step fails.
                let begun = Instant::now();
                while !is_over.load(Ordering::Relaxed) && begun.elapsed() < PATIENCE {
                    read_a_lot(server);
                }
            });
            let line = format!(
                "record --literals --no-stacks -o {} --duration 8s {connection} --when",
                file.display()
            );
            let recorded = spindoctor(&line).arg("Threads_connected > 2").output().expect("the program runs");
            assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
            let bundle = there.path().join("b.tar.gz");
            let line = format!("bundle {} --around 1 -o {} {connection}", file.display(), bundle.display());
            let output = spindoctor(&line).output().expect("the program runs");
            let (summary, notes) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{summary}{notes}");
            is_clean("bundle", &summary);
            is_clean("bundle (standard error)", &notes);
            let open = there.path().join("open.tar.gz");
            let line =
                format!("bundle {} --around 1 -o {} --literals {connection}", file.display(), open.display());
            successful(&line);
            is_over.store(true, Ordering::Relaxed);
            (bundle, open)
        });
        let (bundle, open) = bundle;
        drop(here);

        let inside = unpacked(&bundle, &there.path().join("a"));
        files_are_clean("bundle", &inside);
        let plans = text(&inside.join("server/plans.txt"));
        assert!(plans.contains("SELECT COUNT(*) FROM shop.orders") || plans.contains("`orders`"), "{plans}");
        assert!(plans.contains("select_type\t"), "{plans}");
        let tables = text(&inside.join("server/tables.sql"));
        for part in ["CREATE TABLE `orders`", "`note` varchar(60)", "DEFAULT ?", "COMMENT ?"] {
            assert!(tables.contains(part), "{part}: {tables}");
        }
        assert!(text(&inside.join("server/innodb-status.json")).contains("history_list_length"));
        let name = bundle.display();
        let out = there.path().join("csv");
        for (line, shown) in [
            (format!("report {name} --json --event 1"), "UPDATE customers SET name"),
            (format!("workload --recording {name} --json"), "UPDATE customers SET name"),
            (
                format!("top --once --size 250x60 --screen threads --replay {name}"),
                "UPDATE customers SET name",
            ),
            (format!("export {name} --format csv --out {}", out.display()), "digests"),
            (format!("doctor --fail-on never --json --from {name}"), "row-lock-pileup"),
        ] {
            let (text, code) = printed(&line);
            is_clean(&line, &text);
            assert!(code == 0 && text.contains(shown), "{line}: {text}");
        }
        files_are_clean("export of the bundle", &out);

        // Asked for, they are there.
        let inside = unpacked(&open, &there.path().join("b"));
        assert!(text(&inside.join("server/tables.sql")).contains("of Mallory"));
        assert!(text(&inside.join("server/innodb-status.txt")).contains("TRANSACTIONS"));
        let (text, _) =
            printed(&format!("top --once --size 250x60 --screen threads --replay {}", open.display()));
        assert!(text.contains("customers"), "{text}");
    });
}

fn execute(server: &Server, statements: &[&str]) {
    in_runtime(server.execute(statements.iter().copied())).expect("it works");
}

/// A table whose definition has literals, and rows enough to read for a while.
fn prepare(server: &Server) {
    execute(
        server,
        &[
            "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, \
             note VARCHAR(60) DEFAULT 'alice@example.com' COMMENT 'of Mallory') ENGINE = InnoDB",
            "INSERT INTO shop.orders (note) SELECT LEFT(COLUMN_NAME, 60) FROM information_schema.COLUMNS LIMIT 2000",
        ],
    );
}

/// Somebody who reads, for a second or so.
fn read_a_lot(server: &Server) {
    execute(
        server,
        &["SELECT COUNT(*) FROM shop.orders AS a, shop.orders AS b \
           WHERE a.note <= b.note AND a.note <> 'alice@example.com'"],
    );
}

#[test]
fn no_literal_of_mysqls_statements_and_tables_leaves_in_a_bundle() {
    no_literal_leaves(Which::Mysql);
}

#[test]
fn no_literal_of_mariadbs_statements_and_tables_leaves_in_a_bundle() {
    no_literal_leaves(Which::Mariadb);
}

#[test]
fn the_help_of_bundle_is_this() {
    let (help, code) = printed("bundle --help");
    assert_eq!(code, 0, "{help}");
    insta::assert_snapshot!(help);
}
