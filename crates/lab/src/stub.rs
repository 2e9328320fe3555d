//! Stub servers: they speak enough of MySQL's protocol to answer one query, by the thousand, or to misbehave.
//!
//! One listener stands for every address of 127.0.0.0/8: it is bound to all addresses and to the loopback device, so
//! that nothing from outside reaches it. Any account is let in; a statement gets the answer that the conduct gives it (SET
//! gets an OK). Where they have a certificate they speak TLS 1.3. All of it runs on one thread.

mod certificate;
pub mod mysql;
pub mod proxy;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::HandshakeKind;

pub use certificate::Certificate;

/// Connections that may wait to be accepted: as many as the kernel lets a socket have by default (somaxconn).
const BACKLOG: u32 = 4096;
/// `mysql_com.h`: LONG_PASSWORD, LONG_FLAG, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, MULTI_RESULTS,
/// PLUGIN_AUTH, CONNECT_ATTRS.
const CAPABILITIES: u32 = 1 | 1 << 2 | 1 << 3 | 1 << 9 | 1 << 13 | 1 << 15 | 1 << 17 | 1 << 19 | 1 << 20;
/// SSL, and the bytes of a packet that asks for it: the head of a login and no more.
const SSL: u32 = 1 << 11;
const SSL_REQUEST_BYTES: usize = 32;
/// What `caching_sha2_password` says after a proof: it is that of the cache, or the cache has none (MySQL's `sha2_password.cc`,
/// `fast_auth_success` and `perform_full_authentication`).
const PROVED: &[u8] = b"\x01\x03";
const WANTS_PASSWORD: &[u8] = b"\x01\x04";
const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const EOF: &[u8] = b"\xfe\0\0\x02\0";

/// From a server's address and a statement to the answer as it is sent.
type OfStatement = dyn Fn(Ipv4Addr, &str) -> Arc<[u8]> + Send + Sync;

/// What a stub server answers, by its address and the statement.
#[derive(Clone)]
pub struct Answers(Arc<OfStatement>);

impl Answers {
    /// As this says.
    pub fn new(of: impl Fn(Ipv4Addr, &str) -> Arc<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answers")
    }
}

/// What stub servers do.
#[derive(Debug, Clone)]
pub enum Conduct {
    /// They answer.
    Answer(Arc<[u8]>),
    /// They answer each statement by itself. Where the answer has no bytes they say nothing from then on.
    Answers(Answers),
    /// They answer after a while.
    Slow(Duration, Arc<[u8]>),
    /// They accept, and say nothing.
    Hang,
    /// They let clients in, and then say nothing.
    HangWhenAsked,
    /// They have no connection left.
    Full,
    /// They let nobody in.
    Deny,
    /// They close where the middle of the answer would be.
    CutOff(Arc<[u8]>),
    /// They say these bytes in place of the answer.
    Babble(Vec<u8>),
    /// They say these bytes in place of a greeting.
    NoMysql(Vec<u8>),
    /// They refuse to be made read only.
    RefuseSet,
}

/// How clients come in.
#[derive(Debug, Clone, Default)]
pub struct Entrance {
    /// TLS 1.3 with this certificate is offered; None without TLS.
    pub certificate: Option<Certificate>,
    /// How accounts log in.
    pub login: Login,
}

/// How accounts log in; any proof and any password will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Login {
    /// By `mysql_native_password`.
    #[default]
    Native,
    /// By `caching_sha2_password`, with the account in the server's cache: the proof is enough.
    Cached,
    /// By `caching_sha2_password`, with nothing in the cache: the server wants the password itself.
    Uncached,
}

/// TLS handshakes that came to their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handshakes {
    /// With a certificate, in one round trip.
    pub full: u64,
    /// With a certificate, in two: the client's first hello had no key of a group that the server knows.
    pub retried: u64,
    /// With the ticket of an earlier session.
    pub resumed: u64,
}

/// Stub servers at one port of every loopback address. They go when this is dropped.
#[derive(Debug)]
pub struct Stub {
    port: u16,
    thread_id: Pid,
    handshakes: Arc<Mutex<Handshakes>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections share.
struct Common {
    conduct: Conduct,
    login: Login,
    acceptor: Option<TlsAcceptor>,
    handshakes: Arc<Mutex<Handshakes>>,
}

impl Common {
    fn count(&self, kind: Option<HandshakeKind>) {
        let mut handshakes = locked(&self.handshakes);
        match kind {
            Some(HandshakeKind::Resumed) => handshakes.resumed += 1,
            Some(HandshakeKind::FullWithHelloRetryRequest) => handshakes.retried += 1,
            Some(HandshakeKind::Full) | None => handshakes.full += 1,
        }
    }
}

impl Stub {
    /// Starts them, without TLS.
    pub fn start(conduct: Conduct) -> io::Result<Self> {
        Self::start_behind(&Entrance::default(), conduct)
    }

    /// Starts them.
    pub fn start_behind(entrance: &Entrance, conduct: Conduct) -> io::Result<Self> {
        raise_open_files();
        let handshakes: Arc<Mutex<Handshakes>> = Arc::default();
        let acceptor = entrance.certificate.as_ref().map(Certificate::acceptor).transpose()?;
        let common = Common { conduct, login: entrance.login, acceptor, handshakes: handshakes.clone() };
        let (stop, stopped) = oneshot::channel();
        let (sender, ports) = mpsc::channel();
        let thread = std::thread::Builder::new().name("stub-servers".to_owned()).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(sender.send(Err(error))),
            };
            runtime.block_on(async move {
                let listener = match listen() {
                    Ok(listener) => listener,
                    Err(error) => return drop(sender.send(Err(error))),
                };
                let thread_id = rustix::thread::gettid();
                let _ = sender.send(listener.local_addr().map(|address| (address.port(), thread_id)));
                let serve = async {
                    let common = Arc::new(common);
                    let mut id = 0_u32;
                    loop {
                        // A client that left already, or no descriptor free for a moment.
                        let Ok((stream, _)) = listener.accept().await else { continue };
                        id += 1;
                        let common = common.clone();
                        // Whatever the client does, the others are served.
                        tokio::spawn(async move { drop(serve(stream, id, &common).await) });
                    }
                };
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
        })?;
        let (port, thread_id) = ports.recv().map_err(|_| io::ErrorKind::BrokenPipe)??;
        Ok(Self { port, thread_id, handshakes, stop: Some(stop), thread: Some(thread) })
    }

    /// Their port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// TLS handshakes so far.
    pub fn handshakes(&self) -> Handshakes {
        *locked(&self.handshakes)
    }

    /// The CPU time of their thread so far, the kernel's work for it included (proc(5), `schedstat`: nanoseconds stand first).
    pub fn cpu_time(&self) -> io::Result<Duration> {
        let path = format!("/proc/self/task/{}/schedstat", self.thread_id.as_raw_nonzero());
        let text = std::fs::read_to_string(path)?;
        let ns = text.split_ascii_whitespace().next().and_then(|ns| ns.parse().ok());
        ns.map(Duration::from_nanos).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// So many of them, as a list of servers has them: `127.0.0.1:43210`, one a line.
    pub fn list(&self, count: u32) -> String {
        addresses(count).map(|address| format!("{address}:{}\n", self.port)).collect()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Loopback addresses, from 127.0.0.1 on.
pub fn addresses(count: u32) -> impl Iterator<Item = Ipv4Addr> {
    (1..=count).map(|at| Ipv4Addr::from(0x7f00_0000 + at))
}

/// A thousand connections need more files than a shell grants.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it may not be raised, connections wait for each other.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn listen() -> io::Result<tokio::net::TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind_device(Some(b"lo"))?;
    socket.bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
    socket.listen(BACKLOG)
}

fn locked(handshakes: &Mutex<Handshakes>) -> MutexGuard<'_, Handshakes> {
    handshakes.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(mut stream: TcpStream, id: u32, common: &Common) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let address = match stream.local_addr()? {
        SocketAddr::V4(address) => *address.ip(),
        SocketAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    match &common.conduct {
        Conduct::Hang => {
            until_it_leaves(&mut stream, &mut buffer).await;
            return Ok(());
        }
        Conduct::Full => return stream.write_all(&framed(0, &error(1040, "Too many connections"))).await,
        Conduct::NoMysql(bytes) => return stream.write_all(bytes).await,
        _ => {}
    }
    stream.write_all(&framed(0, &greeting(id, common))).await?;
    match &common.acceptor {
        None => {
            let (number, _) = command(&mut stream, &mut buffer).await?;
            converse(&mut stream, &mut buffer, number, address, common).await
        }
        // On the heap: connections without TLS need no room for it.
        Some(acceptor) => Box::pin(serve_with_tls(stream, acceptor, &mut buffer, address, common)).await,
    }
}

/// What follows a greeting that offers TLS.
async fn serve_with_tls(
    mut stream: TcpStream,
    acceptor: &TlsAcceptor,
    buffer: &mut [u8],
    address: Ipv4Addr,
    common: &Common,
) -> io::Result<()> {
    // A ticket that is not acknowledged yet shall not hold up the answer to the login.
    stream.set_nodelay(true)?;
    let (number, length) = first_packet(&mut stream, buffer).await?;
    if length != SSL_REQUEST_BYTES {
        return converse(&mut stream, buffer, number, address, common).await;
    }
    let mut stream = acceptor.accept(stream).await?;
    common.count(stream.get_ref().1.handshake_kind());
    let (number, _) = command(&mut stream, buffer).await?;
    converse(&mut stream, buffer, number, address, common).await
}

/// Lets in the client whose login was the packet of this number, and answers it.
async fn converse(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    buffer: &mut [u8],
    number: u8,
    address: Ipv4Addr,
    common: &Common,
) -> io::Result<()> {
    let mut next = number.wrapping_add(1);
    if let Conduct::Deny = common.conduct {
        return say(stream, &framed(next, &error(1045, "Access denied for user 'app'@'localhost'"))).await;
    }
    let mut welcome = Vec::new();
    match common.login {
        Login::Native => {}
        Login::Cached => {
            put(&mut welcome, next, PROVED);
            next = next.wrapping_add(1);
        }
        Login::Uncached => {
            say(stream, &framed(next, WANTS_PASSWORD)).await?;
            next = command(stream, buffer).await?.0.wrapping_add(1);
        }
    }
    put(&mut welcome, next, OK);
    say(stream, &welcome).await?;
    loop {
        let (_, command) = command(stream, buffer).await?;
        match command {
            [1, ..] => return Ok(()),
            [3, sql @ ..] if sql.starts_with(b"SET ") => {
                let answer = match common.conduct {
                    Conduct::RefuseSet => error(1193, "Unknown system variable 'transaction_read_only'"),
                    _ => OK.to_vec(),
                };
                say(stream, &framed(1, &answer)).await?;
            }
            [3, sql @ ..] => match &common.conduct {
                Conduct::Answer(answer) => say(stream, answer).await?,
                Conduct::Answers(Answers(answers)) => {
                    let answer = answers(address, &String::from_utf8_lossy(sql));
                    if answer.is_empty() {
                        until_it_leaves(stream, buffer).await;
                        return Ok(());
                    }
                    say(stream, &answer).await?;
                }
                Conduct::Slow(pause, answer) => {
                    tokio::time::sleep(*pause).await;
                    say(stream, answer).await?;
                }
                Conduct::CutOff(answer) => return say(stream, &answer[..answer.len() / 2]).await,
                Conduct::Babble(bytes) => say(stream, bytes).await?,
                _ => {
                    until_it_leaves(stream, buffer).await;
                    return Ok(());
                }
            },
            _ => say(stream, &framed(1, OK)).await?,
        }
    }
}

/// Sends all of it: TLS may keep back what a full socket does not take.
async fn say(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn until_it_leaves(stream: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) {
    while stream.read(buffer).await.is_ok_and(|read| read > 0) {}
}

/// The number of the first packet and the length of its payload. Not a byte behind it is read: what follows a request for TLS
/// is TLS's.
async fn first_packet(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<(u8, usize)> {
    stream.read_exact(&mut buffer[..4]).await?;
    let (number, length) = (buffer[3], payload_length(buffer));
    let payload = buffer.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
    stream.read_exact(payload).await?;
    Ok((number, length))
}

/// The next packet's number and payload; those of clients that ask one thing fit into the buffer.
async fn command<'a>(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &'a mut [u8],
) -> io::Result<(u8, &'a [u8])> {
    let mut there = 0;
    loop {
        if there >= 4 {
            let length = payload_length(buffer);
            if length + 4 > buffer.len() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if there >= length + 4 {
                return Ok((buffer[3], &buffer[4..length + 4]));
            }
        }
        match stream.read(&mut buffer[there..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => there += read,
        }
    }
}

/// What the head of a packet says.
fn payload_length(head: &[u8]) -> usize {
    usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16
}

/// A payload of one frame.
fn framed(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 4);
    put(&mut out, sequence, payload);
    out
}

fn put(out: &mut Vec<u8>, sequence: u8, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes()[..3]);
    out.push(sequence);
    out.extend_from_slice(payload);
}

fn greeting(id: u32, common: &Common) -> Vec<u8> {
    let capabilities = if common.acceptor.is_some() { CAPABILITIES | SSL } else { CAPABILITIES };
    let plugin = match common.login {
        Login::Native => "mysql_native_password",
        Login::Cached | Login::Uncached => "caching_sha2_password",
    };
    let mut out = b"\x0a8.0.36-stub\0".to_vec();
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(b"abcdefgh\0");
    out.extend_from_slice(&capabilities.to_le_bytes()[..2]);
    out.extend_from_slice(b"\x2d\x02\0");
    out.extend_from_slice(&capabilities.to_le_bytes()[2..]);
    out.push(21);
    out.extend_from_slice(&[0; 10]);
    out.extend_from_slice(b"ijklmnopqrst\0");
    out.extend_from_slice(plugin.as_bytes());
    out.push(0);
    out
}

fn error(code: u16, message: &str) -> Vec<u8> {
    let mut out = vec![0xff];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(b"#HY000");
    out.extend_from_slice(message.as_bytes());
    out
}

fn text(out: &mut Vec<u8>, text: &str) {
    match text.len() {
        length @ 0..=250 => out.push(length as u8),
        length => {
            out.push(0xfc);
            out.extend_from_slice(&u16::try_from(length).expect("a cell of a stub is short").to_le_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

/// A result set as it is sent: columns, each with its type (`field_types.h`: 8 a number, 253 a text), and rows.
pub fn answer<'a>(columns: &[(&str, u8)], rows: impl IntoIterator<Item = Vec<&'a str>>) -> Arc<[u8]> {
    let (mut out, mut sequence) = (Vec::new(), 0_u8);
    let mut packet = |payload: &[u8]| {
        sequence = sequence.wrapping_add(1);
        put(&mut out, sequence, payload);
    };
    packet(&[u8::try_from(columns.len()).expect("few columns")]);
    for (name, code) in columns {
        let mut described = Vec::new();
        for part in ["def", "", "", "", name, ""] {
            text(&mut described, part);
        }
        described.extend_from_slice(b"\x0c\x2d\0\0\x01\0\0");
        described.push(*code);
        described.extend_from_slice(b"\0\0\0\0\0");
        packet(&described);
    }
    packet(EOF);
    for row in rows {
        let mut cells = Vec::new();
        row.iter().for_each(|cell| text(&mut cells, cell));
        packet(&cells);
    }
    packet(EOF);
    out.into()
}

/// A value of one column and row.
pub fn value(name: &str, value: &str) -> Arc<[u8]> {
    answer(&[(name, 253)], [vec![value]])
}

/// A process list of nearly so many bytes.
pub fn process_list(bytes: usize) -> Arc<[u8]> {
    const COLUMNS: [(&str, u8); 8] = [
        ("Id", 8),
        ("User", 253),
        ("Host", 253),
        ("db", 253),
        ("Command", 253),
        ("Time", 3),
        ("State", 253),
        ("Info", 253),
    ];
    let numbers: Vec<[String; 4]> = (0..bytes / 190)
        .map(|at| {
            let statement = format!(
                "SELECT c.id, c.name, o.total FROM customer c JOIN orders o ON o.customer_id = c.id WHERE c.id = {at}"
            );
            [format!("{}", 1_000_000 + at), format!("10.1.{}.{}:5{at:04}", at % 7, at % 251), (at % 60).to_string(), statement]
        })
        .collect();
    let rows = numbers.iter().map(|[id, host, time, statement]| {
        vec![id, "shop_app", host, "shop", "Query", time, "Sending data", statement.as_str()]
    });
    answer(&COLUMNS, rows)
}
