//! Captures that belong to others, beside the clone: each is recognised as what it is.

use std::fs;
use std::path::Path;

use crate::{Kind, Part, Said, Text, recognise};

/// The kinds of a file's documents.
fn parts(path: &Path) -> Vec<Part> {
    let text = Text::from_bytes(&fs::read(path).unwrap());
    recognise(&path.file_name().unwrap().to_string_lossy(), &text.text)
}

fn each(below: &str, mut check: impl FnMut(&str, Vec<Part>)) {
    let Some(folder) = spindoctor_corpus::shared(below) else { return };
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    for file in files {
        check(&file.file_name().unwrap().to_string_lossy(), parts(&file));
    }
}

fn kinds(parts: &[Part]) -> Vec<Kind> {
    parts.iter().map(|part| part.kind).collect()
}

#[test]
fn every_status_is_recognised() {
    each("fixtures/innodb_status", |name, parts| {
        if name.contains("expected") {
            assert!(!kinds(&parts).contains(&Kind::ProcessList), "{name}: {parts:?}");
            return;
        }
        assert_eq!(
            kinds(&parts),
            [Kind::InnodbStatus],
            "{name}: {:?}",
            parts.iter().map(|p| (p.kind, p.first_line, p.lines, &p.begins)).collect::<Vec<_>>()
        );
        assert!(parts[0].time.is_some(), "{name}");
    });
}

#[test]
fn every_process_list_is_recognised() {
    each("fixtures/processlist", |name, parts| {
        let kinds = kinds(&parts);
        match name {
            // Four lines of which nobody can say what they are.
            "pmp-copy-processlist-1.txt" => assert_eq!(kinds, [Kind::Unknown], "{name}"),
            _ => assert_eq!(kinds, [Kind::ProcessList], "{name}"),
        }
    });
}

#[test]
fn every_list_of_names_and_values_is_recognised() {
    each("fixtures/status", |name, parts| {
        if name.contains("expected") {
            return;
        }
        // Both lists in one file.
        if name == "pmp-status-variables-001.txt" {
            assert_eq!(kinds(&parts), [Kind::GlobalStatus, Kind::GlobalVariables], "{name}");
            return;
        }
        assert_eq!(kinds(&parts), [Kind::GlobalStatus], "{name}");
    });
    each("fixtures/variables", |name, parts| {
        assert_eq!(kinds(&parts), [Kind::GlobalVariables], "{name}");
    });
    each("fixtures/mycnf", |name, parts| assert_eq!(kinds(&parts), [Kind::OptionFile], "{name}"));
    each("fixtures/replica_status", |name, parts| assert_eq!(kinds(&parts), [Kind::ReplicaStatus], "{name}"));
}

#[test]
fn every_statement_of_a_slow_query_log_is_counted() {
    each("fixtures/slowlog", |name, parts| {
        if name == "pt-empty" {
            assert!(parts.is_empty(), "{parts:?}");
            return;
        }
        assert_eq!(kinds(&parts), [Kind::SlowLog], "{name}: {parts:#?}");
        let path = spindoctor_corpus::shared("fixtures/slowlog").unwrap().join(name);
        let text = Text::from_bytes(&fs::read(path).unwrap()).text;
        let heads = text.lines().filter(|line| line.starts_with("# Query_time: ")).count();
        let counted = parts[0].says[0].split(' ').next().unwrap();
        assert_eq!(counted, heads.to_string(), "{name}: {:?}", parts[0].says);
    });
}

#[test]
fn every_case_is_recognised() {
    each("cases", |name, parts| {
        let wanted = match name.split('-').next().unwrap() {
            "A01" | "A03" | "A03b" | "A06" | "A07" | "A14" => Kind::InnodbStatus,
            "A10" | "A22" | "C07" => Kind::ProcessList,
            "A15" => Kind::ErrorLog,
            "C09" => Kind::OptionFile,
            _ => return,
        };
        assert_eq!(kinds(&parts), [wanted], "{name}: {parts:#?}");
    });
}

/// The diagnosis of one case.
fn diagnosis(name: &str) -> Option<spindoctor_model::Diagnosis> {
    let folder = spindoctor_corpus::shared("cases")?;
    let file = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find(|path| {
        path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}-")))
    })?;
    let parts = parts(&file);
    let diagnosis = spindoctor_rules::diagnose(&crate::window(&parts));
    assert_eq!(diagnosis.interrupted, None, "{name}: nobody asked a server");
    Some(diagnosis)
}

fn causes(diagnosis: &spindoctor_model::Diagnosis) -> Vec<&str> {
    diagnosis.findings.iter().map(|finding| finding.cause.as_str()).collect()
}

fn remedies(finding: &spindoctor_model::Finding) -> String {
    finding.remedies.iter().map(|remedy| format!("{} {}\n", remedy.statement, remedy.why)).collect()
}

#[test]
fn a01_storage_that_does_not_answer_stands_first() {
    let Some(diagnosis) = diagnosis("A01") else { return };
    let first = &diagnosis.findings[0];
    assert_eq!(first.cause, "storage-stalled", "{:#?}", causes(&diagnosis));
    assert!(first.headline.contains("1 flush of the redo log, 6 page writes"), "{}", first.headline);
    assert!(first.why.contains("dict0stats.cc:2376"), "{}", first.why);
    let others = causes(&diagnosis);
    assert!(!others.contains(&"purge-lag") && !others.contains(&"statistics-stall"), "{others:?}");
    assert!(!remedies(first).contains("SET GLOBAL"));
}

#[test]
fn a03_the_chain_ends_at_the_adaptive_hash_index_and_the_monitors_statement_is_named() {
    for name in ["A03", "A03b"] {
        let Some(diagnosis) = diagnosis(name) else { return };
        let first = &diagnosis.findings[0];
        assert_eq!(first.cause, "latch-pileup", "{name} {:?}", causes(&diagnosis));
        assert!(
            first.headline.contains("connection 14075") && first.headline.contains("adaptive hash index"),
            "{}",
            first.headline
        );
        assert!(first.why.contains("not known"), "{}", first.why);
        let root = first.root.as_ref().unwrap();
        assert!(
            root.connection_id == Some(14075) && root.statement.to_lowercase().contains("information_schema"),
            "{root:?}"
        );
        assert!(remedies(first).contains("innodb_stats_on_metadata = OFF"));
        assert!(!first.headline.contains("each other"), "a wait_ex holder is no deadlock with itself");
    }
}

#[test]
fn a06_the_counters_lock_and_who_has_it_are_named() {
    let Some(diagnosis) = diagnosis("A06") else { return };
    let first = &diagnosis.findings[0];
    assert_eq!(first.cause, "auto-increment-lock", "{:?}", causes(&diagnosis));
    assert!(first.headline.contains("app.t_inc") && first.headline.contains("77146"), "{}", first.headline);
    assert!(remedies(first).contains("innodb_autoinc_lock_mode = 2"));
    assert!(!causes(&diagnosis).contains(&"row-lock-pileup"), "{:?}", causes(&diagnosis));
}

#[test]
fn a07_an_escaped_text_is_read() {
    let Some(folder) = spindoctor_corpus::shared("cases") else { return };
    let parts = parts(&folder.join("A07-status-python-tuple-5.7.34.txt"));
    let Said::Innodb(status) = &parts[0].moments[0].said[0] else { panic!() };
    assert_eq!(
        (status.transactions.history_list_length, status.log.current_lsn),
        (Some(27), Some(12_738_854))
    );
    assert_eq!(status.buffer_pool.pages, Some(8192));
}

#[test]
fn a10_a14_a22_and_c07_are_named_for_what_they_are() {
    let Some(galera) = diagnosis("A14") else { return };
    assert!(!causes(&galera).contains(&"prepared-xa-left"), "{:?}", causes(&galera));
    assert!(galera.findings.iter().all(|finding| !remedies(finding).contains("XA ")));
    let flush = diagnosis("A22").unwrap();
    let first = &flush.findings[0];
    assert_eq!(first.cause, "global-lock-pileup");
    assert!(
        first.headline.contains("11747960") && first.headline.contains("does not show"),
        "{}",
        first.headline
    );
    assert!(
        remedies(first).contains("lock_wait_timeout") && remedies(first).contains("LOCK INSTANCE FOR BACKUP")
    );
    let drop = diagnosis("C07").unwrap();
    assert_eq!(causes(&drop)[0], "metadata-lock-pileup", "{:?}", causes(&drop));
    let hang = diagnosis("A10").unwrap();
    assert!(!hang.findings.is_empty());
}

/// XtraDB of MySQL 5.1: of 164 threads that wait for latches 30 wait for this mutex.
#[test]
fn the_mutex_of_the_list_of_transactions_is_named_by_the_status_alone() {
    let Some(folder) = spindoctor_corpus::shared("fixtures/innodb_status") else { return };
    let window = crate::window(&parts(&folder.join("pt-summary-001.txt")));
    let diagnosis = spindoctor_rules::diagnose(&window);
    let found = diagnosis.findings.iter().find(|finding| finding.cause == "transaction-system-contention");
    let headline = found.map(|finding| finding.headline.as_str());
    assert_eq!(headline, Some("30 threads wait for the list of transactions"), "{:?}", causes(&diagnosis));
}

#[test]
fn a15_a_ring_of_two_needs_a_restart() {
    let Some(diagnosis) = diagnosis("A15") else { return };
    let first = &diagnosis.findings[0];
    assert_eq!(first.cause, "latch-pileup");
    assert!(
        first.headline.contains("buf_pool_lru_list mutex") && first.headline.contains("fil_shard mutex"),
        "{}",
        first.headline
    );
    assert!(
        first.headline.contains("only a restart") && remedies(first).contains("Report it"),
        "{}",
        first.headline
    );
}

#[test]
fn a11_the_kernel_spins_with_zfs_and_no_setting_is_proposed() {
    let Some(folder) = spindoctor_corpus::shared("cases") else { return };
    let parts = parts(&folder.join("A11-perf-zfs-spin.txt"));
    assert_eq!(kinds(&parts), [Kind::Stacks]);
    let says = parts[0].says.join("\n");
    assert!(says.contains("mysqld in _raw_spin_lock_irqsave"), "{says}");
    let diagnosis = diagnosis("A11").unwrap();
    assert_eq!(causes(&diagnosis), ["kernel-contention"]);
    let finding = &diagnosis.findings[0];
    assert!(
        finding.headline.contains("in _raw_spin_lock_irqsave") && finding.headline.contains("zfs"),
        "{finding:?}"
    );
    assert!(format!("{:?}", finding.evidence).contains("agent"), "{finding:?}");
    assert!(!remedies(finding).contains("SET GLOBAL innodb_spin"), "{finding:?}");
}
