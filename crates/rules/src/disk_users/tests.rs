use spindoctor_model::Reading;
use spindoctor_model::host::{
    DataDirectory, DiskUser, DiskUsers, EffectiveCpus, FolderDisk, MemoryStat, OtherProgram,
};

use super::which::is_part_of;
use super::*;
use crate::testing::{Build, answer};

const MB: f64 = 1e6;

/// A disk that is busy all the time: name, MB that it reads and writes a second, in I/Os of 16 KB of 20 ms each.
fn busy(name: &str, read: f64, written: f64, at_s: f64) -> DiskStat {
    let count = |mb: f64| (mb * MB * at_s / 16_384.0) as u64;
    DiskStat {
        name: name.into(),
        reads: count(read),
        read_bytes: (read * MB * at_s) as u64,
        read_us: count(read) * 20_000,
        writes: count(written),
        written_bytes: (written * MB * at_s) as u64,
        write_us: count(written) * 20_000,
        busy_us: (at_s * 1e6) as u64,
        ..DiskStat::default()
    }
}

/// A server that reads and writes so many MB a second, and disks that do so many.
pub(crate) fn disks(build: Build, server: (f64, f64), disks: &[(&'static str, f64, f64)]) -> Build {
    build.variable("datadir", "/srv/db/").each(|at_s, _, host| {
        let busy = |&(name, read, written): &(&str, f64, f64)| busy(name, read, written, at_s);
        host.disks = answer(at_s, disks.iter().map(busy).collect());
        if let Reading::Available { value: process, .. } = &mut host.process {
            process.read_bytes = Some((server.0 * MB * at_s) as u64);
            process.written_bytes = Some((server.1 * MB * at_s) as u64);
        }
    })
}

/// What copies files beside the server.
pub(crate) fn beside_a_copy(build: Build) -> Build {
    let copy =
        OtherProgram { name: "cp".into(), cpus: 0.2, is_client: Some(false), ..OtherProgram::default() };
    build.other_programs(&[copy])
}

/// The server's data and redo log are on this disk; None where that is unknown.
pub(crate) fn data_on(build: Build, disk: Option<&'static str>) -> Build {
    build.each(|at_s, _, host| {
        let folder = |holds, path: &str| FolderDisk {
            holds,
            path: path.into(),
            disk: disk.map(str::to_owned),
            ..FolderDisk::default()
        };
        let folders = vec![folder(FileKind::Data, "/srv/db/"), folder(FileKind::Redo, "./")];
        let (total_bytes, free_bytes) = (1 << 40, 1 << 39);
        let data = DataDirectory {
            path: "/srv/db/".into(),
            total_bytes,
            free_bytes,
            folders,
            ..DataDirectory::default()
        };
        host.data_directory = answer(at_s, data);
    })
}

/// A program that uses next to no CPU and writes so many MB a second, with its files on these disks.
pub(crate) fn beside_a_quiet_writer(build: Build, mb: f64, on: Option<&[&'static str]>) -> Build {
    build.each(|at_s, _, host| {
        let dd = DiskUser {
            name: "dd".into(),
            cgroup: "/system.slice/backup.service".into(),
            pid: 40,
            processes: 1,
            written_bytes_per_s: mb * MB,
            disks: on.map(|disks| disks.iter().map(|&disk| disk.to_owned()).collect()),
            ..DiskUser::default()
        };
        let known = DiskUsers { over_s: at_s, programs: vec![dd], unread: 0 };
        host.disk_users = answer(at_s, if at_s > 0.0 { known } else { DiskUsers::default() });
    })
}

/// So much was written to the page cache and is not on storage yet.
fn unwritten(build: Build, mb: f64) -> Build {
    let unwritten_bytes = Some((mb * MB) as u64);
    build.each(|at_s, _, host| {
        host.memory = answer(at_s, MemoryStat { unwritten_bytes, ..MemoryStat::default() });
    })
}

fn found(server: (f64, f64), of_disks: &[(&'static str, f64, f64)]) -> Option<BusyDisk> {
    on_disks(Build::busy("8.0.36"), server, of_disks)
}

fn on_disks(build: Build, server: (f64, f64), of_disks: &[(&'static str, f64, f64)]) -> Option<BusyDisk> {
    BusyDisk::from_window(&disks(build, server, of_disks).window(), 1.0, &[FileKind::Data])
}

#[test]
fn who_has_less_than_half_of_its_disk_reads_so_with_how_to_find_the_others() {
    let disk = found((2.8, 0.0), &[("sdb", 6.5, 0.0), ("sdb1", 6.5, 0.0)]).unwrap();
    assert_eq!(disk.in_headline(), ", and most likely others have 57 % of what disk sdb does");
    let words = disk.in_words();
    assert!(words.contains("most likely sdb (below /srv/db/): it is busy 100 % of the time"), "{words}");
    assert!(words.contains("397 reads a second of 20 ms each"), "{words}");
    assert!(disk.remedies()[0].statement.contains("iotop -oP"));
    assert!(disk.evidence().iter().any(|one| one.unit == "ms"));
}

#[test]
fn its_own_disk_is_the_servers_and_a_journal_is_no_other_program() {
    let own = found((6.0, 0.0), &[("sdb", 6.5, 0.0)]).unwrap();
    assert_eq!((own.of_others(), own.in_headline().as_str(), own.remedies().len()), (None, "", 0));
    // Small syncs, and the journal's blocks beside them.
    let journal = found((0.0, 0.4), &[("sdb", 0.0, 1.8)]).unwrap();
    assert_eq!(journal.of_others(), None);
    let copied = found((0.0, 1.3), &[("sdb", 0.0, 25.0)]).unwrap();
    assert!(copied.of_others().is_some_and(|share| share > 0.9));
}

/// They may be its own, from before the window.
#[test]
fn writes_are_said_to_be_of_others_in_a_headline_where_a_program_is_seen_that_may_write() {
    let written = |build: Build| {
        let window = disks(build, (0.0, 1.3), &[("sdb", 0.0, 25.0)]).window();
        BusyDisk::from_window(&window, 1.0, &[FileKind::Data]).unwrap()
    };
    let own = written(Build::busy("8.0.36"));
    assert_eq!((own.in_headline().as_str(), own.remedies().len()), ("", 0));
    assert!(own.in_words().contains("or was written to the page cache before"), "{}", own.in_words());
    let copied = written(beside_a_copy(Build::busy("8.0.36")));
    assert!(copied.in_headline().contains("others have 95 %"), "{}", copied.in_headline());
    assert_eq!(copied.remedies().len(), 2);
}

#[test]
fn a_quick_disk_that_may_be_the_servers_leaves_it_open_whether_a_busy_one_is() {
    let of_disks: &[(&'static str, f64, f64)] = &[("sda", 0.0, 1.5), ("sdb", 0.0, 25.0)];
    let build = disks(Build::busy("8.0.36"), (0.0, 1.3), of_disks).each(|_, _, host| {
        let Reading::Available { value: disks, .. } = &mut host.disks else { panic!() };
        disks[0].busy_us /= 10;
        disks[0].write_us /= 10;
    });
    assert_eq!(BusyDisk::from_window(&build.window(), 1.0, &[FileKind::Data]), None);
}

#[test]
fn the_folder_of_the_data_is_not_named_where_the_logs_are_elsewhere() {
    let of = |place: &str| {
        let build = Build::busy("8.0.36").variable("datadir", "/srv/db/").variable("log_bin_basename", place);
        data_folder(&build.window()).map(str::to_owned)
    };
    assert_eq!(of("/srv/db/binlog").as_deref(), Some("/srv/db/"));
    assert_eq!(of("/logs/binlog"), None);
}

#[test]
fn which_disk_it_is_is_not_guessed_at_where_two_could_be() {
    assert_eq!(found((2.8, 0.0), &[("sda", 60.0, 0.0), ("sdb", 6.5, 0.0)]), None);
    // A volume and the disk that it lies upon.
    assert!(found((2.8, 0.0), &[("sda", 6.6, 0.0), ("dm-0", 6.5, 0.0)]).is_some());
    // It does less than the server asks for.
    assert_eq!(found((9.0, 0.0), &[("sdb", 3.0, 0.0)]), None);
}

#[test]
fn parts_of_disks_are_distinguished_from_disks_with_numbers() {
    for (name, disk, is_part) in [
        ("sda1", "sda", true),
        ("nvme0n1p2", "nvme0n1", true),
        ("loop10", "loop1", false),
        ("sdaa", "sda", false),
        ("sda", "sda", false),
    ] {
        assert_eq!(is_part_of(name, disk), is_part, "{name} of {disk}");
    }
}

#[test]
fn others_have_their_share_without_a_culprit_where_it_cannot_have_been_written_before() {
    let of = |mb| {
        let build = unwritten(data_on(Build::busy("8.0.36"), Some("sdb")), mb);
        on_disks(build, (0.0, 1.3), &[("sdb", 0.0, 25.0)]).unwrap()
    };
    // An O_DIRECT write leaves nothing in the page cache.
    let direct = of(8.0);
    assert_eq!(direct.in_headline(), ", and others have 95 % of what disk sdb does");
    assert!(
        direct.in_words().starts_with(" The disk is sdb (below /srv/db/): it is busy"),
        "{}",
        direct.in_words()
    );
    assert!(direct.in_words().ends_with("the rest is somebody else's."), "{}", direct.in_words());
    assert_eq!(direct.remedies().len(), 2);
    // What was in the page cache may have come from the server itself.
    let written_back = of(400.0);
    assert_eq!((written_back.in_headline().as_str(), written_back.remedies().len()), ("", 0));
    assert!(written_back.in_words().contains("or was written to the page cache before"));
    // Memory that is swapped out counts for no process.
    let swaps = unwritten(data_on(Build::busy("8.0.36"), Some("sdb")), 8.0).each(|at_s, _, host| {
        let Reading::Available { value: memory, .. } = &mut host.memory else { panic!() };
        memory.swap_out_pages = at_s as u64;
    });
    let swaps = on_disks(swaps, (0.0, 1.3), &[("sdb", 0.0, 25.0)]).unwrap();
    assert_eq!(swaps.in_headline(), "");
}

#[test]
fn a_writer_that_uses_no_cpu_is_named_with_its_process_and_its_unit() {
    let build = unwritten(data_on(Build::busy("8.0.36"), Some("sdb")), 400.0);
    let build = beside_a_quiet_writer(build, 23.0, Some(&["sdb"]));
    let disk = on_disks(build, (0.0, 1.3), &[("sdb", 0.0, 25.0)]).unwrap();
    assert_eq!(
        disk.in_headline(),
        ", and most likely others have 95 % of what disk sdb does, most of it dd in /system.slice/backup.service (process 40)"
    );
    let [find, bound] = &disk.remedies()[..] else { panic!() };
    assert!(find.statement.contains("look at dd in /system.slice/backup.service (process 40)"), "{find:?}");
    assert!(
        bound.statement.contains("--runtime backup.service ") && bound.statement.contains("-p 40 "),
        "{bound:?}"
    );
    // A quarter of the 25 MB that the disk does in a second.
    let bounds = "IOReadBandwidthMax=\"/dev/sdb 6250K\" IOWriteBandwidthMax=\"/dev/sdb 6250K\"";
    assert!(bound.statement.contains(bounds), "{bound:?}");
    assert!(disk.evidence().iter().any(|one| one.source == "/proc/*/io" && one.unit == "bytes/s"));
    // What a file system adds to large writes is no six times as much: the other's own count says so.
    let build = beside_a_quiet_writer(data_on(Build::busy("8.0.36"), Some("sdb")), 100.0, Some(&["sdb"]));
    let large = on_disks(build, (0.0, 20.0), &[("sdb", 0.0, 122.0)]).unwrap();
    assert!(
        large.of_others().is_some_and(|share| (share - 102.0 / 122.0).abs() < 0.01),
        "{:?}",
        large.of_others()
    );
}

#[test]
fn who_writes_to_another_disk_is_not_named_and_the_servers_own_writes_are_nobody_elses() {
    let near_miss = |server, on: Option<&[&'static str]>| {
        let build = unwritten(data_on(Build::busy("8.0.36"), Some("sdb")), 400.0);
        let build = beside_a_quiet_writer(build, 60.0, on);
        on_disks(build, (0.0, server), &[("sda", 0.0, 60.0), ("sdb", 0.0, 25.0)]).unwrap()
    };
    let elsewhere = near_miss(1.3, Some(&["sda"]));
    assert_eq!((elsewhere.name.as_str(), elsewhere.in_headline().as_str()), ("sdb", ""));
    assert!(elsewhere.evidence().iter().all(|one| one.source != "/proc/*/io"));
    let own = near_miss(24.0, Some(&["sda"]));
    assert_eq!((own.of_others(), own.in_headline().as_str()), (None, ""));
    let time = |disk: &BusyDisk| disk.time_of_server().unwrap();
    assert!(time(&own) > 0.9 && time(&elsewhere) < 0.1);
    // Where its files are unknown it may be who writes here.
    let unknown = near_miss(1.3, None);
    assert!(unknown.in_headline().ends_with(", most likely dd in /system.slice/backup.service (process 40)"));
}

#[test]
fn a_disk_is_known_where_all_folders_are_and_a_busier_one_beside_it_is_not_the_servers() {
    let of_disks: &[(&'static str, f64, f64)] = &[("sda", 0.0, 60.0), ("sdb", 0.0, 25.0)];
    let on = |disk| on_disks(data_on(Build::busy("8.0.36"), disk), (0.0, 1.3), of_disks);
    assert_eq!(on(Some("sdb")).map(|disk| disk.name).as_deref(), Some("sdb"));
    assert_eq!((on(None), on(Some("sdc"))), (None, None));
    // A loop device does what the disk with its file does, and that is counted once.
    let looped: &[(&'static str, f64, f64)] = &[("loop0", 0.0, 24.6), ("sdb", 0.0, 25.0)];
    let own = on_disks(data_on(Build::busy("8.0.36"), None), (0.0, 24.0), looped).unwrap();
    assert_eq!((own.of_others(), own.is_known), (None, false));
    let window = data_on(Build::busy("8.0.36"), Some("sdb")).window();
    assert_eq!(known_disks(&window, FILES_OF_SERVER), Some(vec![("sdb", "/srv/db/")]));
    assert_eq!(known_disks(&window, &[FileKind::Temporary]), None);
}

#[test]
fn where_the_right_to_read_is_missing_the_cpus_count_as_before_and_it_is_said() {
    let refused = |build: Build| {
        let build = data_on(build, Some("sdb")).each(|at_s, _, host| {
            host.disk_users = answer(at_s, DiskUsers { over_s: at_s, unread: 12, ..DiskUsers::default() });
        });
        on_disks(build, (0.0, 1.3), &[("sdb", 0.0, 25.0)]).unwrap()
    };
    let disk = refused(beside_a_copy(Build::busy("8.0.36")));
    assert_eq!(disk.in_headline(), ", and most likely others have 95 % of what disk sdb does");
    assert!(disk.in_words().ends_with(
        "What 12 other processes read and write could not be read: run as root to see whose it is."
    ));
    assert_eq!(refused(Build::busy("8.0.36")).in_headline(), "");
    // Read, and nobody writes: a program that has CPUs does not.
    let build = beside_a_quiet_writer(beside_a_copy(data_on(Build::busy("8.0.36"), Some("sdb"))), 0.1, None);
    assert_eq!(on_disks(build, (0.0, 1.3), &[("sdb", 0.0, 25.0)]).unwrap().in_headline(), "");
}

#[test]
fn a_unit_that_the_server_is_in_is_not_bounded() {
    let unit = |of_server: &'static str| {
        let build = beside_a_quiet_writer(data_on(Build::busy("8.0.36"), Some("sdb")), 23.0, None);
        let build = build.each(|at_s, _, host| {
            let cpus = EffectiveCpus { cgroup: of_server.into(), ..EffectiveCpus::default() };
            host.effective_cpus = answer(at_s, cpus);
        });
        let disk = on_disks(build, (0.0, 1.3), &[("sdb", 0.0, 25.0)]).unwrap();
        disk.culprit().and_then(|one| one.unit.clone())
    };
    assert_eq!(unit("/system.slice/mysql.service").as_deref(), Some("backup.service"));
    assert_eq!(unit("/system.slice/backup.service2").as_deref(), Some("backup.service"));
    assert_eq!(unit("/system.slice/backup.service"), None);
    assert_eq!(unit("/system.slice/backup.service/mysqld"), None);
}

#[test]
fn a_unit_is_named_in_a_command_only_where_its_name_is_plain() {
    let unit = |cgroup: &str| others::unit(cgroup);
    assert_eq!(unit("/system.slice/backup@daily.service").as_deref(), Some("backup@daily.service"));
    for cgroup in ["", "/docker/0123", "/a.slice/x;rm -rf.service", "/-p.service"] {
        assert_eq!(unit(cgroup), None, "{cgroup}");
    }
}
