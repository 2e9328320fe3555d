//! The manifests and the image of `packaging/` start the program with flags that it has, and what the unit file grants.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::program::complained;

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
const MANIFESTS: [&str; 2] = ["kubernetes/sidecar.yaml", "kubernetes/daemonset.yaml"];

fn packaged(file: &str) -> String {
    fs::read_to_string(Path::new(PACKAGING).join(file)).expect("the file is there")
}

/// What stands after this in the one line that begins with it.
fn after(text: &str, begin: &str) -> String {
    let mut found = text.lines().filter_map(|line| line.trim().strip_prefix(begin));
    let rest = found.next().unwrap_or_else(|| panic!("{begin:?} is missing"));
    assert_eq!(found.next(), None, "{begin:?} stands twice");
    rest.to_owned()
}

/// What the program says to these arguments of a recorder, once folders and ports are those of nobody.
fn refused(arguments: &str) -> String {
    let line = arguments.replace("=/", "=/nonexistent/").replace(":19104", ":0").replace(":19105", ":0");
    let (why, code) = complained(&line);
    assert_eq!(code, 2, "{why}");
    why
}

#[test]
fn a_pod_has_the_capabilities_of_the_service_and_no_others() {
    let unit = after(&packaged("spindoctor-record.service"), "AmbientCapabilities=");
    let of_service: BTreeSet<&str> = unit.split(' ').map(|name| name.trim_start_matches("CAP_")).collect();
    for manifest in MANIFESTS {
        let text = packaged(manifest);
        let added = after(&text, "add: [");
        let of_pod: BTreeSet<&str> = added.trim_end_matches(']').split(", ").collect();
        assert_eq!(of_pod, of_service, "{manifest}");
        for least in ["drop: [ALL]", "allowPrivilegeEscalation: false", "readOnlyRootFilesystem: true"] {
            assert!(text.contains(least), "{manifest}: {least}");
        }
    }
}

#[test]
fn the_sidecar_starts_the_recorder_with_flags_that_it_has() {
    let text = packaged("kubernetes/sidecar.yaml");
    let (_, arguments) = text.split_once("args:\n").expect("what the sidecar starts");
    let arguments: Vec<&str> = arguments
        .lines()
        .map_while(|line| line.trim().strip_prefix("- "))
        .take_while(|word| !word.starts_with('{'))
        .collect();
    assert_eq!(arguments[0], "record");
    let why = refused(&arguments.join(" "));
    assert!(why.contains("/nonexistent/etc/spindoctor/my.cnf") && !why.contains("Usage"), "{why}");
}

/// A process in a made `/proc`: its program's name, its environment, the Unix sockets of its network namespace with their
/// inodes, and the inode of the one that it has open itself.
fn process(proc: &Path, pid: u32, program: &str, environment: &str, sockets: &[(u32, &str)], own: u32) {
    let folder = proc.join(pid.to_string());
    fs::create_dir_all(folder.join("net")).expect("a folder of ours");
    fs::create_dir_all(folder.join("fd")).expect("a folder of ours");
    fs::write(folder.join("comm"), format!("{program}\n")).expect("a folder of ours");
    fs::write(folder.join("environ"), environment).expect("a folder of ours");
    let head = "Num       RefCount Protocol Flags    Type St Inode Path\n".to_owned();
    let lines = sockets.iter().map(|(inode, path)| {
        format!("0000000000000000: 00000002 00000000 00010000 0001 01 {inode} {path}\n")
    });
    let connected =
        format!("0000000000000000: 00000003 00000000 00000000 0001 03 {own} /run/connected.sock\n");
    fs::write(folder.join("net/unix"), head + &connected + &lines.collect::<String>())
        .expect("a folder of ours");
    symlink("/dev/null", folder.join("fd/0")).expect("a folder of ours");
    symlink(format!("socket:[{own}]"), folder.join("fd/21")).expect("a folder of ours");
}

/// What a node's recorders would be started with.
fn on_node(proc: &Path) -> Vec<String> {
    let script = Path::new(PACKAGING).join("container/record-node");
    let output = Command::new("sh").arg(script).arg("--print").env("PROC", proc).output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn every_server_of_a_node_is_found_by_its_socket_and_named_by_its_pod() {
    let folder = tempfile::tempdir().unwrap();
    let proc = folder.path();
    let socket = "/var/run/mysqld/mysqld.sock";
    process(
        proc,
        10,
        "mysqld",
        "PATH=/bin\0HOSTNAME=shop-0\0",
        &[(7, "/var/run/mysqld/mysqlx.sock"), (8, socket)],
        8,
    );
    // In the same network namespace; the other one's socket stands first.
    process(proc, 11, "mariadbd", "HOSTNAME=shop-0\0", &[(8, socket), (9, "/run/other.sock")], 9);
    process(proc, 12, "bash", "HOSTNAME=shop-0\0", &[(10, "/run/bash.sock")], 10);
    // One that listens nowhere yet.
    process(proc, 13, "mysqld", "HOSTNAME=shop-1\0", &[(8, socket)], 11);
    let root = format!("--socket={}", proc.display());
    assert_eq!(
        on_node(proc),
        [
            format!(
                "spindoctor record --defaults-file=/etc/spindoctor/my.cnf {root}/10/root{socket} --pid=10 --name=shop-0 \
                 --metrics=0.0.0.0:19104 --output=/var/lib/spindoctor-record/shop-0.rec"
            ),
            format!(
                "spindoctor record --defaults-file=/etc/spindoctor/my.cnf {root}/11/root/run/other.sock --pid=11 \
                 --name=shop-0-11 --metrics=0.0.0.0:19105 --output=/var/lib/spindoctor-record/shop-0-11.rec"
            ),
        ]
    );
    for line in on_node(proc) {
        let why = refused(line.strip_prefix("spindoctor ").expect("the program"));
        assert!(why.contains("/nonexistent/etc/spindoctor/my.cnf") && !why.contains("Usage"), "{why}");
    }
}

#[test]
fn a_hostile_container_leads_a_nodes_recorder_to_no_other_place() {
    let folder = tempfile::tempdir().unwrap();
    let proc = folder.path();
    process(proc, 10, "mysqld", "HOSTNAME=../../etc/x;y $(z)\0", &[(8, "/run/a.sock")], 8);
    process(proc, 11, "mysqld", "HOSTNAME=b\0", &[(9, "/../../run/host.sock")], 9);
    process(proc, 12, "mysqld", "HOSTNAME=\0", &[(10, "@abstract")], 10);
    let lines = on_node(proc);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].ends_with(" --output=/var/lib/spindoctor-record/etcxyz.rec"), "{lines:?}");
}
