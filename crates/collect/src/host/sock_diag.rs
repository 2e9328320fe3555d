//! sock_diag(7): the kernel's listening TCP sockets, without a walk over all others; what lies in the queues of the others, without
//! their text; and which two sockets of Unix's are one connection, which no file of `/proc` says.
//!
//! `/proc/net/tcp` has the listeners first, but the read that finds their end looks for the first socket behind them,
//! through a hash table of hundreds of thousands of places (`tcp_seq_next`, net/ipv4/tcp_ipv4.c): some 5 ms of CPU on a
//! host with few connections. Of a dump that asks for listeners alone the kernel looks at no other
//! (`inet_diag_dump_icsk`, net/ipv4/inet_diag.c). The answer is for the network namespace of the caller.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use spindoctor_model::host::{ListenQueue, TcpQueue};

/// What the kernel sends at once at most (`NLMSG_GOODSIZE` of a dump, include/linux/netlink.h).
const MOST_BYTES: usize = 32 << 10;
/// `SOCK_DIAG_BY_FAMILY`, `NLMSG_ERROR`, `NLMSG_DONE` (linux/sock_diag.h, linux/netlink.h).
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// `IPPROTO_TCP`, and `TCP_LISTEN` (net/tcp_states.h).
const TCP: u8 = 6;
const LISTEN: u8 = 10;
/// `TCP_ESTABLISHED`, which sockets of Unix have too.
const ESTABLISHED: u8 = 1;
/// What the timer of a connection is set for (`inet_sk_diag_fill`, net/ipv4/inet_diag.c; the same in
/// `/proc/net/tcp`): to send again, and to ask the other end whether it has room. Others count something else.
pub(super) const TIMERS: [u8; 2] = [1, 4];
/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// `struct inet_diag_req_v2`, `struct unix_diag_req`, `struct unix_diag_msg`.
const INET_REQUEST_BYTES: usize = 56;
const UNIX_REQUEST_BYTES: usize = 24;
const UNIX_ANSWER_BYTES: usize = 16;
/// `UDIAG_SHOW_PEER`, `UNIX_DIAG_PEER` (linux/unix_diag.h).
const SHOW_PEER: u32 = 4;
const PEER: u16 = 2;

/// The listening TCP sockets of a family (`AF_INET`, `AF_INET6`) in the caller's network namespace, so many at most.
pub(super) fn listeners(family: AddressFamily, limit: usize) -> io::Result<Vec<ListenQueue>> {
    Ok(dump(&tcp(family, LISTEN), Bounds::sockets(limit), listener)?.0)
}

/// Connections over TCP of a family in the caller's network namespace that belong to this account and may be stuck, so many at most; and
/// whether these are all.
pub(super) fn queues(family: AddressFamily, uid: u32, bounds: Bounds) -> io::Result<(Vec<TcpQueue>, bool)> {
    dump(&tcp(family, ESTABLISHED), bounds, |body| connection(body, uid).filter(TcpQueue::may_be_stuck))
}

/// Connected sockets of Unix in the caller's network namespace, so many at most: the inode of each and that of its peer.
pub(super) fn unix_peers(limit: usize) -> io::Result<Vec<(u64, u64)>> {
    let mut body = [0; UNIX_REQUEST_BYTES];
    body[0] = AddressFamily::UNIX.as_raw() as u8;
    body[4..8].copy_from_slice(&(1_u32 << ESTABLISHED).to_ne_bytes());
    body[12..16].copy_from_slice(&SHOW_PEER.to_ne_bytes());
    Ok(dump(&body, Bounds::sockets(limit), unix_peer)?.0)
}

/// `struct inet_diag_req_v2`: TCP sockets of a family in one state.
fn tcp(family: AddressFamily, state: u8) -> [u8; INET_REQUEST_BYTES] {
    let mut body = [0; INET_REQUEST_BYTES];
    body[0] = family.as_raw() as u8;
    body[1] = TCP;
    body[4..8].copy_from_slice(&(1_u32 << state).to_ne_bytes());
    body
}

/// How much of a dump is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Sockets that are wanted, at most.
    pub(super) sockets: usize,
    /// When no more is asked for; None where the kernel looks at few.
    pub(super) until: Option<Instant>,
}

impl Bounds {
    fn sockets(sockets: usize) -> Self {
        Self { sockets, until: None }
    }

    /// So many sockets, and so much time.
    pub(super) fn within(sockets: usize, time: Duration) -> Self {
        Self { sockets, until: Some(Instant::now() + time) }
    }
}

/// Asks for a dump and takes what is wanted out of each message; and whether that was the whole dump.
fn dump<T>(body: &[u8], bounds: Bounds, wanted: impl Fn(&[u8]) -> Option<T>) -> io::Result<(Vec<T>, bool)> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    sendto(&socket, &request(body), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut sockets = Vec::new();
    let mut buffer = vec![0; MOST_BYTES];
    let is_whole = loop {
        let (_, length) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        let has_time = bounds.until.is_none_or(|until| Instant::now() < until);
        match parse(&buffer[..length.min(MOST_BYTES)], &wanted, &mut sockets) {
            Dump::Over => break true,
            Dump::Refused(errno) => return Err(io::Error::from_raw_os_error(errno)),
            Dump::GoesOn if length > 0 && sockets.len() < bounds.sockets && has_time => {}
            Dump::GoesOn => break false,
        }
    };
    let is_within = sockets.len() <= bounds.sockets;
    sockets.truncate(bounds.sockets);
    Ok((sockets, is_whole && is_within))
}

/// `struct nlmsghdr`, and what is asked of which family.
fn request(body: &[u8]) -> Vec<u8> {
    let mut request = vec![0; HEADER_BYTES];
    request[..4].copy_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    request.extend_from_slice(body);
    request
}

/// How a dump goes on behind a datagram.
#[derive(Debug, PartialEq, Eq)]
enum Dump {
    GoesOn,
    Over,
    /// The kernel refused it, with this errno.
    Refused(i32),
}

/// Takes what is wanted out of a datagram. What is cut off or of another kind is passed over.
fn parse<T>(datagram: &[u8], wanted: impl Fn(&[u8]) -> Option<T>, sockets: &mut Vec<T>) -> Dump {
    let mut rest = datagram;
    while let (Some(length), Some(kind)) = (u32_at(rest, 0), rest.get(4..6)) {
        let length = length as usize;
        let Some(body) = rest.get(HEADER_BYTES..length) else { break };
        match u16::from_ne_bytes([kind[0], kind[1]]) {
            DONE => return Dump::Over,
            ERROR => {
                let errno = u32_at(body, 0).unwrap_or_default() as i32;
                return Dump::Refused(errno.saturating_neg());
            }
            BY_FAMILY => sockets.extend(wanted(body)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Dump::GoesOn
}

/// `struct inet_diag_msg`: `FAMILY STATE TIMER RETRANS SPORT[2] ...`, the port in the network's order, and at 56 `RQUEUE[4]`,
/// which counts who waits to be accepted.
fn listener(body: &[u8]) -> Option<ListenQueue> {
    let state = *body.get(1)?;
    let port = body.get(4..6)?;
    (state == LISTEN).then_some(())?;
    Some(ListenQueue { port: u16::from_be_bytes([port[0], port[1]]), waiting: u32_at(body, 56)?.into() })
}

/// `struct inet_diag_msg`: `FAMILY STATE TIMER RETRANS SPORT[2] DPORT[2] SRC[16] DST[16] IF[4] COOKIE[8] EXPIRES[4] RQUEUE[4] WQUEUE[4]
/// UID[4] INODE[4]`, ports and addresses in the network's order. None for a connection of another account, and where both queues are
/// empty.
fn connection(body: &[u8], uid: u32) -> Option<TcpQueue> {
    let [family, state, timer, tries, ..] = *body else { return None };
    let (unread, unsent) = (u32_at(body, 56)?, u32_at(body, 60)?);
    (state == ESTABLISHED && u32_at(body, 64)? == uid && (unread > 0 || unsent > 0)).then_some(())?;
    let port = |at: usize| Some(u16::from_be_bytes(*body.get(at..)?.first_chunk()?));
    let address = body.get(24..)?;
    let address = match u16::from(family) == AddressFamily::INET.as_raw() {
        true => IpAddr::V4(Ipv4Addr::from(*address.first_chunk::<4>()?)),
        false => IpAddr::V6(Ipv6Addr::from(*address.first_chunk::<16>()?)),
    };
    Some(TcpQueue {
        port: port(4)?,
        peer: SocketAddr::new(address.to_canonical(), port(6)?).to_string(),
        inode: u32_at(body, 68)?.into(),
        unsent_bytes: unsent.into(),
        unread_bytes: unread.into(),
        tries: if TIMERS.contains(&timer) { tries.into() } else { 0 },
    })
}

/// `struct unix_diag_msg`: `FAMILY TYPE STATE PAD INODE[4] COOKIE[8]`, then attributes `LENGTH[2] KIND[2] VALUE`, the peer's inode
/// among them.
fn unix_peer(body: &[u8]) -> Option<(u64, u64)> {
    let inode = u32_at(body, 4)?;
    let mut rest = body.get(UNIX_ANSWER_BYTES..)?;
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([a, b])).max(4);
        if u16::from_ne_bytes([c, d]) == PEER {
            return Some((inode.into(), u32_at(rest, 4)?.into()));
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend_from_slice(&kind.to_ne_bytes());
        message.resize(HEADER_BYTES, 0);
        message.extend_from_slice(body);
        message
    }

    #[test]
    fn a_listener_is_its_port_and_who_waits() {
        let mut body = [0; 72];
        body[1] = LISTEN;
        body[4..6].copy_from_slice(&3306_u16.to_be_bytes());
        body[56..60].copy_from_slice(&7_u32.to_ne_bytes());
        let mut established = body;
        established[1] = 1;
        let datagram = [message(BY_FAMILY, &body), message(BY_FAMILY, &established)].concat();
        let mut sockets = Vec::new();
        assert_eq!(parse(&datagram, listener, &mut sockets), Dump::GoesOn);
        assert_eq!(sockets, [ListenQueue { port: 3306, waiting: 7 }]);
        assert_eq!(parse(&message(DONE, &[0; 4]), listener, &mut sockets), Dump::Over);
        assert_eq!(parse(&message(ERROR, &(-1_i32).to_ne_bytes()), listener, &mut sockets), Dump::Refused(1));
    }

    #[test]
    fn a_connection_is_what_lies_in_its_queues() {
        let mut body = [0_u8; 72];
        body[..4].copy_from_slice(&[AddressFamily::INET.as_raw() as u8, ESTABLISHED, 1, 6]);
        body[4..6].copy_from_slice(&3306_u16.to_be_bytes());
        body[6..8].copy_from_slice(&51_234_u16.to_be_bytes());
        body[24..28].copy_from_slice(&[10, 0, 0, 7]);
        body[60..64].copy_from_slice(&36_u32.to_ne_bytes());
        body[64..68].copy_from_slice(&999_u32.to_ne_bytes());
        body[68..72].copy_from_slice(&31_339_u32.to_ne_bytes());
        let seen = TcpQueue {
            port: 3306,
            peer: "10.0.0.7:51234".into(),
            inode: 31_339,
            unsent_bytes: 36,
            unread_bytes: 0,
            tries: 6,
        };
        assert_eq!(connection(&body, 999), Some(seen.clone()));
        assert_eq!(connection(&body, 0), None, "another account's");
        // The keepalive timer counts something else.
        let mut alive = body;
        alive[2] = 2;
        assert_eq!(connection(&alive, 999).unwrap().tries, 0);
        // An IPv4 client of a socket of IPv6.
        let mut mapped = body;
        mapped[0] = AddressFamily::INET6.as_raw() as u8;
        mapped[24..40].copy_from_slice(&Ipv4Addr::new(10, 0, 0, 7).to_ipv6_mapped().octets());
        assert_eq!(connection(&mapped, 999), Some(seen));
        let mut empty = body;
        empty[60..64].fill(0);
        assert_eq!(connection(&empty, 999), None);
    }

    #[test]
    fn the_kernel_shows_who_waits_before_a_real_socket() {
        for (address, family) in [("127.0.0.1", AddressFamily::INET), ("::1", AddressFamily::INET6)] {
            // A host without IPv6 has no such address.
            let Ok(listener) = TcpListener::bind((address, 0)) else { continue };
            let port = listener.local_addr().unwrap().port();
            let _waiting: Vec<TcpStream> =
                (0..3).map(|_| TcpStream::connect((address, port)).unwrap()).collect();
            let sockets = listeners(family, usize::MAX).unwrap();
            let found = sockets.iter().find(|socket| socket.port == port);
            assert_eq!(found.map(|socket| socket.waiting), Some(3), "{sockets:?}");
        }
    }

    #[test]
    fn the_kernel_shows_which_two_sockets_are_connected() {
        let inode = |socket: &UnixStream| rustix::fs::fstat(socket).unwrap().st_ino;
        let (one, other) = UnixStream::pair().unwrap();
        let peers = unix_peers(usize::MAX).unwrap();
        assert!(peers.contains(&(inode(&one), inode(&other))));
        assert!(peers.contains(&(inode(&other), inode(&one))));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hostile_datagrams_never_panic_and_end(datagram in prop::collection::vec(any::<u8>(), 0..200)) {
            parse(&datagram, listener, &mut Vec::new());
            parse(&datagram, unix_peer, &mut Vec::new());
            connection(&datagram, 0);
            parse(&message(BY_FAMILY, &datagram), unix_peer, &mut Vec::new());
        }
    }
}
