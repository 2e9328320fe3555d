//! A proxy before two servers: it speaks as much of MySQL's protocol as it takes to send each statement to another server.
//!
//! It listens on a unix socket, so that nobody asks for TLS, and logs in to both servers with what its client sent: an account
//! without a password. Each connection has a thread; they end with their clients.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::error::{Error, Result};

/// The number of the first connection, to a client of a proxy that numbers them itself: no server counts as far in a test.
const FIRST_NUMBER: u32 = 1_000_000;
/// `my_command.h`: COM_QUIT, which has no answer.
const QUIT: u8 = 1;
/// The first byte of an answer or of what ends its parts: OK, EOF, and an error.
const OK: u8 = 0;
const EOF: u8 = 0xfe;
const ERROR: u8 = 0xff;
/// A packet's head: three bytes of length, one of sequence.
const HEAD: usize = 4;

/// How a proxy shares what comes between its two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shares {
    /// Each connection goes to the other server than the one before, which greets the client itself: a virtual address, a name
    /// with two addresses, a proxy that knows no protocol.
    Connections,
    /// Each statement goes to the other server than the one before, and the proxy greets its clients with numbers of its own:
    /// ProxySQL, MaxScale.
    Statements,
    /// The first so many statements of a connection go to the first server, which greets the client; the others go to the second.
    After(u32),
}

/// A proxy. Its socket is gone when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    socket: PathBuf,
    is_over: Arc<AtomicBool>,
    connections: Arc<AtomicU32>,
}

impl Proxy {
    /// Listens at a path of the caller's, before the servers with these sockets.
    ///
    /// # Errors
    /// Nobody can listen there.
    pub fn start(socket: &Path, servers: [&Path; 2], shares: Shares) -> Result<Self> {
        let listener = UnixListener::bind(socket).map_err(Error::file("listen on", socket))?;
        let proxy = Self { socket: socket.to_owned(), is_over: Arc::default(), connections: Arc::default() };
        let (is_over, connections) = (Arc::clone(&proxy.is_over), Arc::clone(&proxy.connections));
        let servers = servers.map(Path::to_owned);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let number = connections.fetch_add(1, Ordering::Relaxed);
                let servers = servers.clone();
                // Whatever becomes of one client, the others are served.
                std::thread::spawn(move || drop(serve(client, number, &servers, shares)));
            }
        });
        Ok(proxy)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// How many connections were made to it so far.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // It wakes the one that accepts, which ends.
        drop(UnixStream::connect(&self.socket));
        drop(std::fs::remove_file(&self.socket));
    }
}

fn serve(client: UnixStream, number: u32, servers: &[PathBuf; 2], shares: Shares) -> io::Result<()> {
    match shares {
        Shares::Connections => between(client, UnixStream::connect(&servers[number as usize % 2])?),
        Shares::Statements | Shares::After(_) => statement_by_statement(client, number, servers, shares),
    }
}

/// Hands on all bytes, in both directions, until one end closes.
fn between(mut client: UnixStream, mut server: UnixStream) -> io::Result<()> {
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let answers = std::thread::spawn(move || {
        // An end that is gone ends the other one, too.
        let _copied = io::copy(&mut from_server, &mut to_client);
        let _closed = to_client.shutdown(std::net::Shutdown::Both);
    });
    let _copied = io::copy(&mut client, &mut server);
    let _closed = server.shutdown(std::net::Shutdown::Both);
    // It panics nowhere.
    let _ended = answers.join();
    Ok(())
}

fn statement_by_statement(
    mut client: UnixStream,
    number: u32,
    servers: &[PathBuf; 2],
    shares: Shares,
) -> io::Result<()> {
    let mut servers = [UnixStream::connect(&servers[0])?, UnixStream::connect(&servers[1])?];
    let mut greeting = packet(&mut servers[0])?;
    let _other_greeting = packet(&mut servers[1])?;
    if shares == Shares::Statements {
        put_number(&mut greeting, FIRST_NUMBER + number);
    }
    client.write_all(&greeting)?;
    let login = packet(&mut client)?;
    for server in &mut servers {
        server.write_all(&login)?;
    }
    let answer = packet(&mut servers[0])?;
    let other_answer = packet(&mut servers[1])?;
    client.write_all(&answer)?;
    if [&answer, &other_answer].iter().any(|answer| first_byte(answer) != Some(OK)) {
        return Ok(());
    }
    for asked in 0_u32.. {
        let statement = packet(&mut client)?;
        if first_byte(&statement) == Some(QUIT) {
            break;
        }
        let server = match shares {
            Shares::After(many) => usize::from(asked >= many),
            _ => asked as usize % 2,
        };
        servers[server].write_all(&statement)?;
        hand_on(&mut servers[server], &mut client)?;
    }
    Ok(())
}

/// One packet with its head. Those of a test are shorter than 16 MiB.
fn packet(from: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; HEAD];
    from.read_exact(&mut packet)?;
    let length = usize::from(packet[0]) | usize::from(packet[1]) << 8 | usize::from(packet[2]) << 16;
    packet.resize(HEAD + length, 0);
    from.read_exact(&mut packet[HEAD..])?;
    Ok(packet)
}

fn first_byte(packet: &[u8]) -> Option<u8> {
    packet.get(HEAD).copied()
}

/// `0a VERSION 0 NUMBER[4] ...`
fn put_number(greeting: &mut [u8], number: u32) {
    let Some(end) = greeting.iter().skip(HEAD + 1).position(|byte| *byte == 0) else { return };
    let at = HEAD + 1 + end + 1;
    if let Some(place) = greeting.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

/// Hands on one whole answer: OK or an error alone, or columns and rows, each with an EOF behind them.
fn hand_on(server: &mut UnixStream, client: &mut UnixStream) -> io::Result<()> {
    let first = packet(server)?;
    client.write_all(&first)?;
    if matches!(first_byte(&first), None | Some(OK | ERROR)) {
        return Ok(());
    }
    let mut ends = 0;
    while ends < 2 {
        let next = packet(server)?;
        client.write_all(&next)?;
        match first_byte(&next) {
            Some(ERROR) => break,
            Some(EOF) => ends += 1,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_gets_the_number_of_the_proxy_behind_the_version() {
        let mut greeting = b"\x0a\0\0\0\x0a9.7.4\0\x0c\0\0\0abcdefgh".to_vec();
        put_number(&mut greeting, 0x0102_0304);
        assert_eq!(greeting, b"\x0a\0\0\0\x0a9.7.4\0\x04\x03\x02\x01abcdefgh");
        let mut cut = b"\x02\0\0\0\x0a9".to_vec();
        put_number(&mut cut, 7);
        assert_eq!(cut, b"\x02\0\0\0\x0a9");
    }

    #[test]
    fn an_answer_with_rows_ends_behind_its_second_eof() {
        let (mut ours, mut servers) = UnixStream::pair().unwrap();
        let (mut to_client, mut client) = UnixStream::pair().unwrap();
        let answer = b"\x01\0\0\x01\x01\x02\0\0\x02\x03c\x01\0\0\x03\xfe\x02\0\0\x04\x01x\x01\0\0\x05\xfe";
        ours.write_all(answer).unwrap();
        ours.write_all(b"\x01\0\0\x01\0").unwrap();
        hand_on(&mut servers, &mut to_client).unwrap();
        hand_on(&mut servers, &mut to_client).unwrap();
        drop(to_client);
        let mut came = Vec::new();
        client.read_to_end(&mut came).unwrap();
        assert_eq!(came, [answer.as_slice(), b"\x01\0\0\x01\0"].concat());
    }
}
