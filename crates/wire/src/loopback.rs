//! The process at the other end of a loopback connection, as the kernel knows it.

use std::net::{IpAddr, SocketAddr};

/// The user whose process holds the other end (`peer`) of a connection of ours (`own`); None where the kernel shows none, as
/// of a process in another network namespace.
pub(crate) fn owner(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .find_map(|table| owner_in(&table, peer, own))
}

/// ```text
///   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
///    3: 0100007F:0CEA 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000   104        0 51870 ...
/// ```
///
/// A socket that nobody accepted yet, and one that was closed, belongs to no process: its user stands as 0, and so does its
/// inode (net/ipv4/tcp_ipv4.c, `get_tcp4_sock`).
fn owner_in(table: &str, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    const ESTABLISHED: &str = "01";
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
        let [_, local, remote, state, _, _, _, uid, _, inode] = fields[..] else { return None };
        let is_it = is_at(local, peer) && is_at(remote, own) && state == ESTABLISHED && inode != "0";
        is_it.then(|| uid.parse().ok()).flatten()
    })
}

/// Words of four bytes in the machine's own order; a server that listens on `::` has IPv4 addresses within IPv6 ones.
fn is_at(text: &str, address: SocketAddr) -> bool {
    let words = |bytes: &[u8]| -> String {
        let words =
            bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        words.map(|word| format!("{word:08X}")).collect()
    };
    let port = format!("{:04X}", address.port());
    let is = |ip: &[u8]| text == format!("{}:{port}", words(ip));
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => is(&ip.octets()) || is(&ip.to_ipv6_mapped().octets()),
        IpAddr::V6(ip) => is(&ip.octets()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn our_own_listener_is_ours_once_it_has_accepted() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                assert!(address.starts_with('['), "{address}");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let host = if address == "[::1]:0" { "::1" } else { "127.0.0.1" };
            let stream = TcpStream::connect((host, port)).unwrap();
            let (peer, own) = (stream.peer_addr().unwrap(), stream.local_addr().unwrap());
            assert_eq!(owner(peer, own), None, "nobody accepted it: the table says root, and means nobody");
            let accepted = listener.accept().unwrap();
            assert_eq!(owner(peer, own), Some(rustix::process::geteuid().as_raw()), "{address}");
            drop(accepted);
        }
    }

    #[test]
    fn another_connection_is_not_taken_for_it() {
        let line = "   3: 0100007F:0CEA 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000   104        0 51870 1";
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let peer = at("127.0.0.1:3306");
        if cfg!(target_endian = "little") {
            assert_eq!(owner_in(line, peer, at("127.0.0.1:54000")), Some(104));
        }
        assert_eq!(owner_in(line, peer, at("127.0.0.1:54001")), None);
        assert_eq!(owner_in(&line.replace(" 51870 ", " 0 "), peer, at("127.0.0.1:54000")), None);
        assert_eq!(owner_in(&line.replace(" 01 ", " 08 "), peer, at("127.0.0.1:54000")), None);
        assert_eq!(owner_in("", peer, peer), None);
    }
}
