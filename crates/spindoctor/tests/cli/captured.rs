//! `spindoctor doctor --from`: what is printed of captures, and the exit codes.

use std::fs;

use crate::program::{complained, printed};

/// Two threads that wait for each other's mutexes, as an error log has it.
const RING: &str = "DEADLOCK of threads detected!\n\
    --Thread 11 has waited at buf0buf.cc line 5406 for 0 seconds the semaphore:\n\
    Mutex at 0xff01, Mutex BUF_POOL_LRU_LIST created buf0buf.cc:1231, locked by 12\n\
    --Thread 12 has waited at fil0fil.cc line 2233 for 0 seconds the semaphore:\n\
    Mutex at 0xff02, Mutex FIL_SHARD created fil0fil.cc:2014, locked by 11\n\n";

#[test]
fn a_capture_is_listed_diagnosed_and_decides_over_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("error.log");
    fs::write(&file, RING).unwrap();
    let (text, code) = printed(&format!("doctor --from {}", file.display()));
    assert_eq!(code, 1);
    assert!(text.contains("error.log: error log, 6 lines"), "{text}");
    assert!(text.contains("2 threads wait for each other's latches"), "{text}");
    let (json, code) = printed(&format!("doctor --json --fail-on never --from {}", folder.path().display()));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["given"][0]["kind"].as_str()), (0, Some("error log")));
    assert_eq!(json["findings"][0]["cause"], "latch-pileup");
    let (line, code) = printed(&format!("doctor --nagios --from {}", file.display()));
    assert_eq!(code, 2);
    assert!(line.starts_with("SPINDOCTOR CRITICAL - 1 finding: 2 threads"), "{line}");
}

#[test]
fn what_nobody_knows_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "Hello\u{1b}[2J world\nno status here\n").unwrap();
    let (message, code) = complained(&format!("doctor --from {}", file.display()));
    assert_eq!((code, message.lines().count()), (2, 1), "{message}");
    assert!(
        message.contains("nothing in notes.txt was recognised") && !message.contains('\u{1b}'),
        "{message}"
    );
    let (message, code) = complained(&format!("doctor --from {}/none", folder.path().display()));
    assert_eq!((code, message.lines().count()), (2, 1), "{message}");
}

#[test]
fn where_nothing_is_found_it_is_no_proof() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list");
    fs::write(&file, "Id\tUser\tCommand\tTime\tState\tInfo\n7\tapp\tSleep\t3\t\tNULL\n").unwrap();
    let (text, code) = printed(&format!("doctor --from {}", file.display()));
    assert_eq!(code, 0);
    assert!(text.contains("that does not prove that all was well"), "{text}");
    assert!(text.contains("SHOW ENGINE INNODB STATUS"), "{text}");
}

/// What is no file of text, and what has no end.
#[test]
fn devices_pipes_rings_of_folders_and_bombs_have_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::File::create(at("zeros")).unwrap().set_len(1 << 30).unwrap();
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    (0..200).for_each(|_| std::io::Write::write_all(&mut bomb, &[0; 1 << 20]).unwrap());
    fs::write(at("bomb.gz"), bomb.finish().unwrap()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
    fs::create_dir(at("ring")).unwrap();
    std::os::unix::fs::symlink("..", at("ring/up")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::os::unix::fs::symlink("itself", at("itself")).unwrap();
    fs::create_dir(at("many")).unwrap();
    (0..2_100).for_each(|number| fs::write(at(&format!("many/{number}")), "").unwrap());
    let named = |name: &str| at(name).display().to_string();
    for (name, says) in [
        (named("socket"), "neither a file, a folder nor a pipe"),
        (named("itself"), "could not read"),
        (named("many"), "only the first 2000 of its files were read"),
        ("/dev/zero".to_owned(), "neither a file, a folder nor a pipe"),
        (named("zeros"), "there is nothing to read"),
        (named("bomb.gz"), "there is nothing to read"),
        (named("pipe"), "there is nothing to read"),
        (named("ring"), "there is nothing to read"),
    ] {
        let (message, code) = complained(&format!("doctor --from {name}"));
        assert_eq!((code, message.lines().count()), (2, 1), "{message}");
        assert!(message.contains(says), "{message}");
    }
}

/// A line of 2 MB, and a log that is more than 64 MB long when it is unpacked.
#[test]
fn what_is_longer_than_any_capture_is_read_in_part() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("line");
    fs::write(&file, "x".repeat(2 << 20)).unwrap();
    let (message, code) = complained(&format!("doctor --from {}", file.display()));
    assert_eq!((code, message.lines().count()), (2, 1), "{message}");
    assert!(message.len() < 1_000, "{message}");
    let log = "2024-03-11T02:54:40.110002Z 814 [Warning] Too many connections\n";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packed, log.as_bytes()).unwrap();
    (0..70).for_each(|_| std::io::Write::write_all(&mut packed, &[0; 1 << 20]).unwrap());
    fs::write(&file, packed.finish().unwrap()).unwrap();
    let (text, code) = printed(&format!("doctor --from {}", file.display()));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("only its first 64 MiB were read"), "{text}");
}

/// Captures of two servers in one folder: the full one is named, and no number of the other stands beside its.
#[test]
fn two_servers_in_a_folder_are_not_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let given = |name: &str, version: &str, limit: u32, connected: u32| {
        let text = format!(
            "Variable_name\tValue\ndatadir\t/d\nhostname\t{name}\nport\t3306\nversion\t{version}\nmax_connections\t{limit}\n\n\
             Variable_name\tValue\nQuestions\t400\nThreads_connected\t{connected}\nThreads_running\t3\nUptime\t5000\n"
        );
        fs::write(folder.path().join(name), text).unwrap();
    };
    given("db-a", "8.0.36", 4_000, 12);
    given("db-b", "5.7.44", 151, 151);
    let (text, code) = printed(&format!("doctor --from {}", folder.path().display()));
    assert_eq!(code, 1, "{text}");
    assert!(text.starts_with("MySQL 5.7.44, from what was given"), "{text}");
    assert!(text.contains("151 of 151 connections are taken"), "{text}");
    let says = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(says.contains("2 collections (db-a:3306, db-b:3306)"), "{text}");
}
