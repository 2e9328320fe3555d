//! `/proc/*/stat`: which other programs have the host's CPUs, and whether they are clients of the server.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use spindoctor_model::Unavailable;
use spindoctor_model::host::{OtherProgram, OtherPrograms};

use super::process::parse_task_stat;
use super::source::{HostSource, Target, reading};
use super::{cgroup, kernel_file, sock_diag};
use crate::pace::Pace;
use crate::source::Cadence;

/// What the other programs of the host use.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/*/stat",
    help: "which other programs use the host's CPUs, and which of them are the server's clients",
    cost: "one small file a process: 10 ms of one CPU for 1,000 processes; of the eight busiest programs the open files, \
           and of the server's",
    needs: "root, to tell clients from others",
    cadence: Cadence::Ends,
    pace: Pace::host(30, 600),
    read: |target, sample, now| sample.other_programs = reading(collect(target), now),
};

/// Processes beyond these are not read: a fifth of a second of CPU is enough to ask for.
const MOST_PROCESSES: usize = 20_000;
/// Programs that are named.
const MOST_PROGRAMS: usize = 8;
/// CPUs below which a program is not named.
const LEAST_CPUS: f64 = 0.01;
/// Processes of a program whose open files are looked at, the busiest first: workers of one pool are alike.
const MOST_LOOKED_AT: usize = 4;
/// Open files of one process that are looked at. Of a server with more connections some clients are taken for others.
const MOST_FILES: usize = 65_536;

/// What one reading found, for the next one to subtract.
#[derive(Debug)]
pub(super) struct Before {
    read: Instant,
    /// CPU so far, microseconds, by process id and by when it started.
    used_us: HashMap<(u32, u64), u64>,
}

/// A process and what it used since the reading before.
struct Process {
    pid: u32,
    name: String,
    used_us: u64,
}

fn collect(target: &Target) -> Result<OtherPrograms, Unavailable> {
    let entries =
        std::fs::read_dir(&target.proc).map_err(|error| kernel_file::because(&target.proc, &error))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A process that ended since the folder was listed is left out.
    let stats: Vec<_> = pids
        .filter(|&pid| pid != target.pid)
        .take(MOST_PROCESSES)
        .filter_map(|pid| parse_task_stat(&kernel_file::read(&target.proc.join(format!("{pid}/stat"))).ok()?))
        .collect();
    let key = |stat: &super::process::TaskStat| (stat.id, stat.started_ticks);
    let used = |stat: &super::process::TaskStat| stat.user_us.saturating_add(stat.system_us);
    let now =
        Before { read: Instant::now(), used_us: stats.iter().map(|stat| (key(stat), used(stat))).collect() };
    let Some(before) = target.programs_before(now) else { return Ok(OtherPrograms::default()) };
    // One that began since counts from its birth.
    let processes = stats.into_iter().map(|stat| Process {
        pid: stat.id,
        used_us: used(&stat).saturating_sub(before.used_us.get(&key(&stat)).copied().unwrap_or(0)),
        name: stat.name,
    });
    let over_s = before.read.elapsed().as_secs_f64();
    Ok(OtherPrograms { over_s, programs: busiest(target, processes.collect(), over_s) })
}

/// The programs that used most, with what else is said of them.
fn busiest(target: &Target, processes: Vec<Process>, over_s: f64) -> Vec<OtherProgram> {
    let mut by_program: BTreeMap<(String, String), Vec<Process>> = BTreeMap::new();
    for process in processes.into_iter().filter(|process| process.used_us > 0) {
        let group = cgroup_of(target, process.pid);
        by_program.entry((process.name.clone(), group)).or_default().push(process);
    }
    let cpus = |of: &[Process]| of.iter().map(|one| one.used_us as f64).sum::<f64>() / 1e6 / over_s.max(1e-3);
    let mut programs: Vec<_> = by_program.into_iter().filter(|(_, of)| cpus(of) >= LEAST_CPUS).collect();
    programs.sort_by(|a, b| cpus(&b.1).total_cmp(&cpus(&a.1)));
    programs.truncate(MOST_PROGRAMS);
    let clients = if programs.is_empty() { None } else { Connections::of_server(target) };
    programs
        .into_iter()
        .map(|((name, cgroup), mut of)| {
            of.sort_by_key(|process| std::cmp::Reverse(process.used_us));
            let looked_at = of.iter().take(MOST_LOOKED_AT).map(|process| process.pid);
            OtherProgram {
                is_client: clients.as_ref().and_then(|clients| clients.has_any(target, looked_at)),
                pid: of.first().map_or(0, |busiest| busiest.pid),
                processes: of.len() as u64,
                cpus: cpus(&of),
                name,
                cgroup,
            }
        })
        .collect()
}

/// The group whose CPUs it shares: that of the cpu controller, or the one of version 2. Empty for the root.
pub(super) fn cgroup_of(target: &Target, pid: u32) -> String {
    let text = kernel_file::read(&target.proc.join(format!("{pid}/cgroup"))).unwrap_or_default();
    let memberships = cgroup::parse_cgroup(&text);
    let by_cpu = memberships.iter().find(|one| one.controllers.iter().any(|name| name == "cpu"));
    let path = by_cpu.or_else(|| memberships.iter().find(|one| one.controllers.is_empty()));
    path.map(|one| one.path.clone()).filter(|path| path != "/").unwrap_or_default()
}

/// The far ends of the server's connections on this host.
#[derive(Debug, Default)]
struct Connections {
    /// Sockets of Unix that a client holds, by inode.
    unix: HashSet<u64>,
    /// Inodes of TCP sockets that a client holds.
    tcp: HashSet<u64>,
}

impl Connections {
    /// None where the server's open files cannot be read, or where it lives in another network namespace, whose clients come
    /// from elsewhere.
    fn of_server(target: &Target) -> Option<Self> {
        if !target.is_in_our_network() {
            return None;
        }
        let own = sockets_of(target, target.pid)?;
        let peers = sock_diag::unix_peers(MOST_FILES).unwrap_or_default();
        let unix = peers.into_iter().filter(|(socket, _)| own.contains(socket)).map(|(_, peer)| peer);
        let mut tcp = Vec::new();
        for table in ["net/tcp", "net/tcp6"] {
            let text = kernel_file::read_if_any(&target.process(table)).ok().flatten().unwrap_or_default();
            tcp.extend(text.lines().filter_map(parse_connection));
        }
        // Seen from the other end the two ports change places. An address may be written in two ways, so it is left out.
        let far: HashSet<(u16, u16)> = tcp
            .iter()
            .filter(|one| own.contains(&one.inode))
            .map(|one| (one.remote_port, one.local_port))
            .collect();
        let held = tcp.iter().filter(|one| far.contains(&(one.local_port, one.remote_port)));
        Some(Self { unix: unix.collect(), tcp: held.map(|one| one.inode).collect() })
    }

    /// True where one of these processes holds such an end; None where none can be looked at.
    fn has_any(&self, target: &Target, pids: impl Iterator<Item = u32>) -> Option<bool> {
        let mut known = None;
        for pid in pids {
            let Some(sockets) = sockets_of(target, pid) else { continue };
            let has_one = sockets.iter().any(|inode| self.unix.contains(inode) || self.tcp.contains(inode));
            known = Some(known.unwrap_or(false) || has_one);
        }
        known
    }
}

/// The inodes of the sockets that a process has open; None where it is not ours to look.
fn sockets_of(target: &Target, pid: u32) -> Option<HashSet<u64>> {
    let entries = std::fs::read_dir(target.proc.join(format!("{pid}/fd"))).ok()?;
    let inode = |entry: std::fs::DirEntry| {
        let link = std::fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Some(entries.flatten().take(MOST_FILES).filter_map(inode).collect())
}

/// A TCP socket that is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connection {
    local_port: u16,
    remote_port: u16,
    inode: u64,
}

/// A line of `/proc/PID/net/tcp`: `sl local rem st tx:rx tr:when retrnsmt uid timeout inode ...`; state 01 is ESTABLISHED.
fn parse_connection(line: &str) -> Option<Connection> {
    let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let port = |field: &str| u16::from_str_radix(field.rsplit_once(':')?.1, 16).ok();
    (*fields.get(3)? == "01").then_some(())?;
    Some(Connection {
        local_port: port(fields.get(1)?)?,
        remote_port: port(fields.get(2)?)?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::super::testing::never_panics;
    use super::*;

    /// A process that counts for ever, ended with this.
    struct Busy(Child);

    impl Busy {
        fn start(open: Stdio) -> Self {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(open);
            Self(command.spawn().unwrap())
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _gone = self.0.kill();
            let _status = self.0.wait();
        }
    }

    fn program_of(found: &OtherPrograms, busy: &Busy) -> OtherProgram {
        found
            .programs
            .iter()
            .find(|program| program.pid == busy.0.id())
            .cloned()
            .unwrap_or_else(|| panic!("{found:?}"))
    }

    #[test]
    fn who_keeps_a_cpu_busy_is_named_and_who_is_connected_is_a_client() {
        // This process stands for the server.
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let client = UnixStream::connect(folder.path().join("socket")).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        for (connection, is_client) in
            [(Stdio::from(std::os::fd::OwnedFd::from(client)), true), (Stdio::null(), false)]
        {
            let target = Target::live(std::process::id());
            let busy = Busy::start(connection);
            assert_eq!(collect(&target).unwrap(), OtherPrograms::default());
            std::thread::sleep(Duration::from_millis(500));
            let found = collect(&target).unwrap();
            let program = program_of(&found, &busy);
            assert_eq!((program.name.as_str(), program.is_client), ("sh", Some(is_client)), "{found:?}");
            assert!(program.cpus > 0.05 && found.over_s >= 0.5, "{found:?}");
        }
        accepted.write_all(b"still there").unwrap_err();
    }

    #[test]
    fn a_client_by_tcp_is_a_client_too() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_accepted, _) = listener.accept().unwrap();
        let target = Target::live(std::process::id());
        client.set_nonblocking(true).unwrap();
        assert!(client.read(&mut [0]).is_err());
        let busy = Busy::start(Stdio::from(std::os::fd::OwnedFd::from(client)));
        let connections = Connections::of_server(&target).unwrap();
        assert_eq!(connections.has_any(&target, [busy.0.id()].into_iter()), Some(true));
        let other = Busy::start(Stdio::null());
        assert_eq!(connections.has_any(&target, [other.0.id()].into_iter()), Some(false));
        assert_eq!(connections.has_any(&target, [u32::MAX].into_iter()), None);
    }

    #[test]
    fn a_connection_is_two_ports_and_an_inode() {
        let line = "   2: 0100007F:0CEA 0100007F:C350 01 00000000:00000000 00:00000000 00000000   104        0 31339 1 0 100 0";
        let connection = Connection { local_port: 3306, remote_port: 50_000, inode: 31_339 };
        assert_eq!(parse_connection(line), Some(connection));
        assert_eq!(parse_connection(&line.replace(" 01 ", " 0A ")), None);
        never_panics(parse_connection);
    }
}
