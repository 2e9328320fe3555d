//! The server's process, found from how it is reached.
//!
//! In: a [`Target`]. Out: its process id, or why there is none. The kernel's tables of listening sockets
//! (`/proc/net/unix`, `/proc/net/tcp`, `/proc/net/tcp6`) give the socket's inode, and `/proc/PID/fd` who holds it: the
//! server notices nothing, so this works on one that hangs. Where the tables do not show it (another user's process, a
//! socket bound under another name), the credentials of the unix socket's listener do, at the cost of one connection
//! that says nothing.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use spindoctor_model::Unavailable;

use super::kernel_file;
use crate::mysql::target::{Endpoint, Target, addresses};

/// What lets the user name the process.
const UNLOCK: &str = "name the process with --pid PID";

/// Where no server is found at a socket.
const WHERE_IT_IS: &str =
    "check that the server runs and where its socket is (-S), or name its process (--pid PID)";

/// Whose process is the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostChoice {
    /// This one.
    Pid(u32),
    /// To be found from where the connection leads.
    Find,
    /// None: the host is not to be read.
    None {
        /// Why not, and what would unlock it.
        because: Unavailable,
    },
}

impl HostChoice {
    /// The server's process, or why there is none to look at. One that was named and has ended is looked for again.
    /// `proc` stands for `/proc`.
    ///
    /// # Errors
    /// As for [`find`]; or the host is not to be read.
    pub fn process(&self, target: &Target, proc: &Path) -> Result<u32, Unavailable> {
        match self {
            Self::Pid(pid) if self.named_and_gone(proc).is_none() => Ok(*pid),
            Self::Pid(_) | Self::Find => find(target),
            Self::None { because } => Err(because.clone()),
        }
    }

    /// The same by this system's own `/proc`.
    ///
    /// # Errors
    /// As for [`HostChoice::process`].
    pub fn process_here(&self, target: &Target) -> Result<u32, Unavailable> {
        self.process(target, Path::new("/proc"))
    }

    /// The process that was named, where there is none of this number.
    pub fn named_and_gone(&self, proc: &Path) -> Option<u32> {
        match self {
            Self::Pid(pid) if !proc.join(pid.to_string()).is_dir() => Some(*pid),
            _ => None,
        }
    }
}

/// Finds the process that listens where the target points.
///
/// `Unavailable` where the server is on another host, where something else listens (a proxy), or
/// where this user may not see who does.
pub fn find(target: &Target) -> Result<u32, Unavailable> {
    find_below(Path::new("/proc"), target)
}

fn find_below(proc: &Path, target: &Target) -> Result<u32, Unavailable> {
    let address = target.address();
    match &target.endpoint {
        Endpoint::Socket(path) => {
            let table = kernel_file::read(&proc.join("net/unix")).unwrap_or_default();
            match holder(proc, &unix_listeners(&table, path)) {
                Holder::Server(pid) => Ok(pid),
                _ => by_credentials(proc, path),
            }
        }
        Endpoint::Tcp { host, port } => {
            if !target.is_local() {
                let because = format!("{address} is not on this host");
                return Err(Unavailable::because(because).unlock("run spindoctor on the server's host"));
            }
            let tables = ["net/tcp", "net/tcp6"].map(|table| kernel_file::read(&proc.join(table)));
            let listeners: Vec<Listener> =
                tables.iter().flatten().flat_map(|table| tcp_listeners(table, *port)).collect();
            let inodes = serving(&listeners, &addresses(host, *port));
            if inodes.is_empty() {
                let because = format!("no process in this network namespace listens on {address}");
                return Err(Unavailable::because(because).unlock(UNLOCK));
            }
            match holder(proc, &inodes) {
                Holder::Server(pid) => Ok(pid),
                Holder::Other(pid, name) => Err(not_a_server(&address, pid, &name)),
                Holder::Unseen => {
                    let because = format!("this user may not see which process listens on {address}");
                    Err(Unavailable::because(because)
                        .unlock("run as root or as the server's user, or give --pid PID"))
                }
            }
        }
    }
}

fn not_a_server(address: &str, pid: u32, name: &str) -> Unavailable {
    Unavailable::because(format!(
        "{name} (pid {pid}) listens on {address}, which is no MySQL or MariaDB server"
    ))
    .unlock(UNLOCK)
}

/// True for `mysqld`, `mariadbd`, `mysqld-debug`; not for what goes by a similar name.
fn is_server_name(name: &str) -> bool {
    const OTHERS: [&str; 3] = ["mysqld_safe", "mysqld_exporter", "mysqld_multi"];
    // A name in /proc/PID/comm has at most 15 bytes.
    (name.starts_with("mysqld") || name.starts_with("mariadbd"))
        && !OTHERS.iter().any(|other| other.starts_with(name) && name.len() > "mysqld".len())
        && !name.starts_with("mariadbd-safe")
}

/// The process's name: that of its program where it may be seen, else its first thread's.
fn name_of(proc: &Path, pid: u32) -> String {
    let folder = proc.join(pid.to_string());
    let comm = kernel_file::read(&folder.join("comm")).unwrap_or_default().trim_end().to_owned();
    if is_server_name(&comm) {
        return comm;
    }
    let exe = fs::read_link(folder.join("exe")).ok();
    let exe = exe.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    // A program whose file was replaced by an upgrade: `/usr/sbin/mysqld (deleted)`.
    exe.map_or(comm, |name| name.trim_end_matches(" (deleted)").to_owned())
}

/// Who holds a listening socket.
#[derive(Debug, PartialEq, Eq)]
enum Holder {
    Server(u32),
    Other(u32, String),
    Unseen,
}

/// Looks through the open files of all processes that this user may see.
fn holder(proc: &Path, inodes: &[u64]) -> Holder {
    let wanted: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    if wanted.is_empty() {
        return Holder::Unseen;
    }
    let holds = |pid: u32| {
        let files = fs::read_dir(proc.join(pid.to_string()).join("fd")).into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|link| link.to_str().is_some_and(|link| wanted.iter().any(|socket| socket == link)))
    };
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // Servers first: on most hosts there is one, and the files of a thousand others need no look.
    let (servers, others): (Vec<u32>, Vec<u32>) = pids.partition(|&pid| is_server_name(&name_of(proc, pid)));
    if let Some(pid) = servers.into_iter().find(|&pid| holds(pid)) {
        return Holder::Server(pid);
    }
    let other = others.into_iter().find(|&pid| holds(pid));
    other.map_or(Holder::Unseen, |pid| Holder::Other(pid, name_of(proc, pid)))
}

/// The inodes of sockets that listen under a path.
///
/// Format is like (unix(7); flag 00010000 is a listening socket, net.h `__SO_ACCEPTCON`)
/// `ffff8880: 00000002 00000000 00010000 0001 01 31337 /run/mysqld/mysqld.sock`
fn unix_listeners(table: &str, path: &Path) -> Vec<u64> {
    let real = path.canonicalize().ok();
    table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let flags = fields.nth(3)?;
            let inode = fields.nth(2)?.parse().ok()?;
            let bound = Path::new(line.get(line.find('/')?..)?);
            // Anybody may bind a socket to any name: only one that may be this one is looked up.
            let may_be = [Some(path), real.as_deref()]
                .iter()
                .flatten()
                .any(|one| one.file_name() == bound.file_name());
            let same = bound == path || real.is_some() && may_be && bound.canonicalize().ok() == real;
            (flags == "00010000" && same).then_some(inode)
        })
        .collect()
}

/// A socket that listens on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listener {
    ip: IpAddr,
    inode: u64,
}

/// The sockets of a table that listen on a port.
///
/// Format is like (proc_net_tcp; state 0A is LISTEN, addresses are words in the host's byte order)
/// `   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   104        0 31337 1 ...`
fn tcp_listeners(table: &str, port: u16) -> Vec<Listener> {
    table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let (ip, local_port) = fields.get(1)?.split_once(':')?;
            let listens = *fields.get(3)? == "0A" && u16::from_str_radix(local_port, 16) == Ok(port);
            let listener = Listener { ip: parse_ip(ip)?, inode: fields.get(9)?.parse().ok()? };
            listens.then_some(listener)
        })
        .collect()
}

/// `0100007F` or 32 such digits.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let words: Vec<u32> = (0..hex.len())
        .step_by(8)
        .map(|at| u32::from_str_radix(hex.get(at..at + 8)?, 16).ok())
        .collect::<Option<_>>()?;
    match words[..] {
        [word] => Some(IpAddr::V4(Ipv4Addr::from(word.to_ne_bytes()))),
        [_, _, _, _] => {
            let mut bytes = [0; 16];
            for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
                chunk.copy_from_slice(&word.to_ne_bytes());
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

/// The sockets that take connections to one of these addresses: those bound to it, else to all.
fn serving(listeners: &[Listener], wanted: &[IpAddr]) -> Vec<u64> {
    let of = |matches: &dyn Fn(IpAddr) -> bool| -> Vec<u64> {
        listeners.iter().filter(|listener| matches(listener.ip)).map(|listener| listener.inode).collect()
    };
    let exact = of(&|ip| wanted.contains(&ip));
    if exact.is_empty() { of(&|ip| ip.is_unspecified()) } else { exact }
}

/// Who called listen() on a unix socket (unix(7), SO_PEERCRED); any user may ask.
///
/// The connection does not wait: a server that hangs with a full backlog is left alone.
fn by_credentials(proc: &Path, path: &Path) -> Result<u32, Unavailable> {
    let address = path.display().to_string();
    let cannot = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Unavailable::because(format!("there is no server socket {address}")).unlock(WHERE_IT_IS)
        }
        ErrorKind::ConnectionRefused => {
            Unavailable::because(format!("nothing listens on {address}")).unlock(WHERE_IT_IS)
        }
        _ => Unavailable::because(format!("the process behind {address} cannot be seen: {error}"))
            .unlock(UNLOCK),
    };
    let pid = listener_of(path).map_err(cannot)?;
    // The kernel says 0 for a process in a PID namespace that is not below this one.
    if pid == 0 {
        let because = format!("the process behind {address} is in another container");
        return Err(
            Unavailable::because(because).unlock("run spindoctor on the host, or in the server's container")
        );
    }
    let name = name_of(proc, pid);
    // The process that called listen() may be systemd, or gone.
    if is_server_name(&name) { Ok(pid) } else { Err(not_a_server(&address, pid, &name)) }
}

fn listener_of(path: &Path) -> std::io::Result<u32> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    peer_pid(&socket)
}

/// Not rustix's `socket_peercred`: its `Pid` cannot be 0, and the kernel's can.
fn peer_pid(socket: &impl AsFd) -> std::io::Result<u32> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open for the whole call, and the kernel writes at most `length` bytes
    // to `credentials`, which is that long, plain data, and valid for any bytes.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if outcome == 0 { Ok(credentials.pid.unsigned_abs()) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   104        0 31337 1 0 100 0 0 10 0\n\
        1: 00000000:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   104        0 31338 1 0 100 0 0 10 0\n\
        2: 0100007F:0CEA 0100007F:C350 01 00000000:00000000 00:00000000 00000000   104        0 31339 1 0 100 0 0 10 0\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn finds_who_listens_on_a_port_the_exact_address_first() {
        let listeners = tcp_listeners(TCP, 3306);
        assert_eq!(listeners.len(), 2, "an open connection is no listener");
        assert_eq!(serving(&listeners, &["127.0.0.1".parse().unwrap()]), [31337]);
        assert_eq!(serving(&listeners, &["192.0.2.1".parse().unwrap()]), [31338]);
        assert!(tcp_listeners(TCP, 3307).is_empty());
        assert_eq!(parse_ip("00000000000000000000000001000000"), "::1".parse().ok());
        assert_eq!(parse_ip("0000000000000000FFFF00000100007F"), "127.0.0.1".parse().ok());
        assert_eq!(parse_ip("0100ü"), None);
    }

    #[test]
    fn finds_who_listens_under_a_path() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0: 00000002 00000000 00010000 0001 01 41 /no/such dir/mysqld.sock\n\
            0: 00000003 00000000 00000000 0001 03 42 /no/such dir/mysqld.sock\n\
            0: 00000003 00000000 00000000 0001 03 43\n";
        assert_eq!(unix_listeners(table, Path::new("/no/such dir/mysqld.sock")), [41]);
    }

    #[test]
    fn a_server_is_distinguished_from_what_goes_by_a_similar_name() {
        for name in ["mysqld", "mariadbd", "mysqld-debug"] {
            assert!(is_server_name(name), "{name}");
        }
        for name in
            ["mysqld_safe", "mysqld_exporter", "mysqld_exporte", "mariadbd-safe", "mysql", "proxysql", ""]
        {
            assert!(!is_server_name(name), "{name}");
        }
    }

    #[test]
    fn a_listener_that_is_no_server_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Target::new(Endpoint::Tcp { host: "127.0.0.1".into(), port }, "u");
        let reason = find(&target).unwrap_err();
        assert!(reason.because.contains(&format!("(pid {})", std::process::id())), "{reason:?}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let reason = find(&Target::new(Endpoint::Socket(path), "u")).unwrap_err();
        assert!(reason.because.contains(&format!("(pid {})", std::process::id())), "{reason:?}");
        assert_eq!(reason.unlock.as_deref(), Some(UNLOCK));
    }

    #[test]
    fn a_socket_that_is_not_there_or_that_nobody_has_is_said_to_be_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let found = || find(&Target::new(Endpoint::Socket(path.clone()), "u")).unwrap_err();
        let said = |reason: Unavailable, what: &str| {
            assert_eq!(reason.because, format!("{what} {}", path.display()));
            assert_eq!(reason.unlock.as_deref(), Some(WHERE_IT_IS));
        };
        said(found(), "there is no server socket");
        // What a server that was killed leaves behind.
        drop(UnixListener::bind(&path).unwrap());
        said(found(), "nothing listens on");
    }

    #[test]
    fn a_server_elsewhere_is_not_on_this_host() {
        let target = Target::new(Endpoint::Tcp { host: "192.0.2.1".into(), port: 3306 }, "u");
        assert!(find(&target).unwrap_err().because.contains("not on this host"));
    }
}
