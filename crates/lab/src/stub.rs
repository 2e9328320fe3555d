//! Stub servers: they speak enough of MySQL's protocol to answer one query, by the thousand, or to misbehave.
//!
//! One listener stands for every address of 127.0.0.0/8: it is bound to all addresses and to the loopback device, so
//! that nothing from outside reaches it. Any account is let in; a statement gets the answer that the conduct gives it (SET
//! gets an OK). All of it runs on one thread.

pub mod mysql;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;

/// Connections that may wait to be accepted: as many as the kernel lets a socket have by default (somaxconn).
const BACKLOG: u32 = 4096;
/// `mysql_com.h`: LONG_PASSWORD, LONG_FLAG, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, MULTI_RESULTS,
/// PLUGIN_AUTH, CONNECT_ATTRS.
const CAPABILITIES: u32 = 1 | 1 << 2 | 1 << 3 | 1 << 9 | 1 << 13 | 1 << 15 | 1 << 17 | 1 << 19 | 1 << 20;
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

/// Stub servers at one port of every loopback address. They go when this is dropped.
#[derive(Debug)]
pub struct Stub {
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stub {
    /// Starts them.
    pub fn start(conduct: Conduct) -> io::Result<Self> {
        raise_open_files();
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
                let _ = sender.send(listener.local_addr().map(|address| address.port()));
                let serve = async {
                    let conduct = Arc::new(conduct);
                    let mut id = 0_u32;
                    loop {
                        // A client that left already, or no descriptor free for a moment.
                        let Ok((stream, _)) = listener.accept().await else { continue };
                        id += 1;
                        let conduct = conduct.clone();
                        // Whatever the client does, the others are served.
                        tokio::spawn(async move { drop(serve(stream, id, &conduct).await) });
                    }
                };
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
        })?;
        let port = ports.recv().map_err(|_| io::ErrorKind::BrokenPipe)??;
        Ok(Self { port, stop: Some(stop), thread: Some(thread) })
    }

    /// Their port.
    pub fn port(&self) -> u16 {
        self.port
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

async fn serve(mut stream: TcpStream, id: u32, conduct: &Conduct) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let address = match stream.local_addr()? {
        SocketAddr::V4(address) => *address.ip(),
        SocketAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    match conduct {
        Conduct::Hang => {
            until_it_leaves(&mut stream, &mut buffer).await;
            return Ok(());
        }
        Conduct::Full => return stream.write_all(&framed(0, &error(1040, "Too many connections"))).await,
        Conduct::NoMysql(bytes) => return stream.write_all(bytes).await,
        _ => {}
    }
    stream.write_all(&framed(0, &greeting(id))).await?;
    command(&mut stream, &mut buffer).await?;
    if let Conduct::Deny = conduct {
        return stream.write_all(&framed(2, &error(1045, "Access denied for user 'app'@'localhost'"))).await;
    }
    stream.write_all(&framed(2, OK)).await?;
    loop {
        let command = command(&mut stream, &mut buffer).await?;
        match command {
            [1, ..] => return Ok(()),
            [3, sql @ ..] if sql.starts_with(b"SET ") => {
                let answer = match conduct {
                    Conduct::RefuseSet => error(1193, "Unknown system variable 'transaction_read_only'"),
                    _ => OK.to_vec(),
                };
                stream.write_all(&framed(1, &answer)).await?;
            }
            [3, sql @ ..] => match conduct {
                Conduct::Answer(answer) => stream.write_all(answer).await?,
                Conduct::Answers(Answers(answers)) => {
                    let answer = answers(address, &String::from_utf8_lossy(sql));
                    if answer.is_empty() {
                        until_it_leaves(&mut stream, &mut buffer).await;
                        return Ok(());
                    }
                    stream.write_all(&answer).await?;
                }
                Conduct::Slow(pause, answer) => {
                    tokio::time::sleep(*pause).await;
                    stream.write_all(answer).await?;
                }
                Conduct::CutOff(answer) => return stream.write_all(&answer[..answer.len() / 2]).await,
                Conduct::Babble(bytes) => stream.write_all(bytes).await?,
                _ => {
                    until_it_leaves(&mut stream, &mut buffer).await;
                    return Ok(());
                }
            },
            _ => stream.write_all(&framed(1, OK)).await?,
        }
    }
}

async fn until_it_leaves(stream: &mut TcpStream, buffer: &mut [u8]) {
    while stream.read(buffer).await.is_ok_and(|read| read > 0) {}
}

/// The next packet's payload; those of clients that ask one thing fit into the buffer.
async fn command<'a>(stream: &mut TcpStream, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut there = 0;
    loop {
        if there >= 4 {
            let length = usize::from(buffer[0]) | usize::from(buffer[1]) << 8 | usize::from(buffer[2]) << 16;
            if length + 4 > buffer.len() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if there >= length + 4 {
                return Ok(&buffer[4..length + 4]);
            }
        }
        match stream.read(&mut buffer[there..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => there += read,
        }
    }
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

fn greeting(id: u32) -> Vec<u8> {
    let mut out = b"\x0a8.0.36-stub\0".to_vec();
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(b"abcdefgh\0");
    out.extend_from_slice(&CAPABILITIES.to_le_bytes()[..2]);
    out.extend_from_slice(b"\x2d\x02\0");
    out.extend_from_slice(&CAPABILITIES.to_le_bytes()[2..]);
    out.push(21);
    out.extend_from_slice(&[0; 10]);
    out.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
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
