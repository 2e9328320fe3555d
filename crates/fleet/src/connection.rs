//! One connection: made, logged in, asked one thing, closed. The protocol is [`crate::wire`]'s.
//!
//! Everything that waits does so without a thread; what is read goes through one buffer that all connections of the
//! runtime share, so that a connection that waits holds no more than its socket and a few hundred bytes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::SendFlags;
use spindoctor_collect::mysql::{Endpoint, Secret, SslMode, Target};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use crate::failure::{Failure, Reason};
use crate::tls::{self, Connectors};
use crate::wire::answer::{Answer, Item};
use crate::wire::greeting;
use crate::wire::login::{Account, Login, Step};
use crate::wire::packets::Packets;
use crate::wire::{Wrong, capability};

/// A packet of a login is never larger: a greeting takes a hundred bytes, an error five hundred and twelve.
const MOST_LOGIN_BYTES: usize = 64 << 10;
/// A row is never larger: MySQL's default for `max_allowed_packet`.
const MOST_ROW_BYTES: usize = 64 << 20;
/// What is read at once.
const READ_BYTES: usize = 256 << 10;
/// COM_QUERY and COM_QUIT (MySQL's `my_command.h`).
const COM_QUERY: u8 = 3;
const COM_QUIT: u8 = 1;

thread_local! {
    /// Where reads land. Nothing waits while it is in use.
    static LANDING: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Which of a server's addresses are tried is the system's order; each gets its turn within the deadline.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

/// What the bytes go through.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// For a moment, while TLS takes the stream over.
    Nothing,
}

impl Stream {
    async fn open(endpoint: &Endpoint) -> Result<Self, Failure> {
        match endpoint {
            Endpoint::Socket(path) => {
                let stream = UnixStream::connect(path).await;
                stream.map(Self::Unix).map_err(|error| Failure::of_connecting(&error))
            }
            Endpoint::Tcp { host, port } => {
                let found = addresses(host, *port)
                    .await
                    .map_err(|error| Failure::connect(format!("the host's name has no address: {error}")))?;
                let mut last = Failure::connect("the host's name has no address");
                for address in found {
                    match TcpStream::connect(address).await {
                        Ok(stream) => return Ok(Self::Tcp(stream)),
                        Err(error) => last = Failure::of_connecting(&error),
                    }
                }
                Err(last)
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Nothing => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Nothing => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
            Self::Nothing => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Nothing => Poll::Ready(Ok(())),
        }
    }
}

/// Why there is nothing more to read.
#[derive(Debug)]
enum Trouble {
    System(io::Error),
    Wrong(Wrong),
}

impl Trouble {
    fn while_connecting(self) -> Failure {
        match self {
            Self::System(error) => Failure::of_connecting(&error),
            Self::Wrong(wrong) => Failure::of_wrong(wrong, false),
        }
    }

    fn while_asking(self) -> Failure {
        match self {
            Self::System(error) => Failure::of_asking(&error),
            Self::Wrong(wrong) => Failure::of_wrong(wrong, true),
        }
    }
}

/// A connection that is logged in.
pub(crate) struct Connection {
    stream: Stream,
    packets: Packets,
    version: Arc<str>,
    answer: Answer,
}

impl Connection {
    /// Connects and logs in. Whoever calls has the deadline.
    pub(crate) async fn open(target: &Target, connectors: &Connectors) -> Result<Self, Failure> {
        let mode = match target.endpoint {
            // MySQL's clients use no TLS over a unix socket; nor is any needed.
            Endpoint::Socket(_) => SslMode::Disabled,
            Endpoint::Tcp { .. } => target.tls.mode,
        };
        match Self::attempt(target, mode, connectors).await {
            // PREFERRED promises no protection against an active attacker: a server whose TLS does not work is asked
            // without, as MySQL's clients do.
            Err(NotOpen::Tls(_)) if mode == SslMode::Preferred => {
                Self::attempt(target, SslMode::Disabled, connectors).await.map_err(NotOpen::into_failure)
            }
            other => other.map_err(NotOpen::into_failure),
        }
    }

    async fn attempt(target: &Target, mode: SslMode, connectors: &Connectors) -> Result<Self, NotOpen> {
        let stream = Stream::open(&target.endpoint).await?;
        let is_private = matches!(stream, Stream::Unix(_));
        let version = Arc::from("");
        let mut connection = Self { stream, packets: Packets::new(), version, answer: Answer::new() };
        let mut came = VecDeque::new();
        let first = connection.packet(&mut came).await?;
        let greeting = match greeting::parse(&first).map_err(|wrong| Failure::of_wrong(wrong, false))? {
            Ok(greeting) => greeting,
            Err(refused) => return Err(Failure::of_refusal(&refused).into()),
        };
        connection.version = Arc::from(greeting.version.as_str());
        let offers_tls = greeting.capabilities & capability::SSL != 0;
        let account = Account {
            user: &target.user,
            password: target.password.as_ref().map_or("", Secret::expose),
            database: target.database.as_deref(),
            cleartext: target.cleartext,
        };
        let mut login = Login::new(greeting, account, is_private);
        if offers_tls && mode != SslMode::Disabled {
            let request = login.tls_request();
            connection.send(&request).await?;
            connection.encrypt(target, &came, connectors).await?;
            login.is_private_now();
        } else if mode > SslMode::Preferred {
            let told = format!("the server offers no TLS, and --ssl-mode={} demands it", mode.name());
            return Err(Failure::new(Reason::Connect, told).into());
        }
        let response = login.response();
        connection.send(&response).await?;
        loop {
            let packet = connection.packet(&mut came).await?;
            match login.packet(&packet).map_err(Failure::of_login)? {
                Step::Send(payload) => connection.send(&payload).await?,
                Step::Wait => {}
                Step::Done => return Ok(connection),
            }
        }
    }

    /// What the server says it is.
    pub(crate) fn version(&self) -> &Arc<str> {
        &self.version
    }

    async fn encrypt(
        &mut self,
        target: &Target,
        came: &VecDeque<Vec<u8>>,
        connectors: &Connectors,
    ) -> Result<(), NotOpen> {
        // What came before the encryption began could be anybody's.
        if !came.is_empty() || !self.packets.is_between() {
            return Err(Failure::of_wrong(Wrong("words before TLS stands"), false).into());
        }
        let connector = connectors.of(&target.tls)?;
        let (Endpoint::Tcp { host, .. }, Stream::Tcp(stream)) =
            (&target.endpoint, std::mem::replace(&mut self.stream, Stream::Nothing))
        else {
            return Err(Failure::new(Reason::Connect, "TLS is for TCP").into());
        };
        let encrypted = connector.connect(tls::name(host), stream).await;
        let encrypted = encrypted.map_err(|error| {
            NotOpen::Tls(Failure::new(
                Reason::Connect,
                format!("TLS failed: {error}; check --ssl-mode and --ssl-ca"),
            ))
        })?;
        self.stream = Stream::Tls(Box::new(encrypted));
        Ok(())
    }

    /// The next packet of the login.
    async fn packet(&mut self, came: &mut VecDeque<Vec<u8>>) -> Result<Vec<u8>, NotOpen> {
        loop {
            if let Some(packet) = came.pop_front() {
                return Ok(packet);
            }
            let mut take = |payload: &[u8]| {
                came.push_back(payload.to_vec());
                Ok(())
            };
            self.read(MOST_LOGIN_BYTES, &mut take).await.map_err(Trouble::while_connecting)?;
        }
    }

    /// Sends a payload of the login.
    async fn send(&mut self, payload: &[u8]) -> Result<(), NotOpen> {
        self.write(payload).await.map_err(|error| Failure::of_connecting(&error).into())
    }

    async fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut framed = Vec::with_capacity(payload.len() + 4);
        self.packets.frame(payload, &mut framed);
        self.stream.write_all(&framed).await?;
        self.stream.flush().await
    }

    /// Reads once a part of the login, and hands each packet on that is whole.
    async fn read(
        &mut self,
        most: usize,
        take: &mut (dyn FnMut(&[u8]) -> Result<(), Wrong> + Send),
    ) -> Result<(), Trouble> {
        std::future::poll_fn(|context| {
            self.poll_read(context, |connection, bytes| connection.packets.feed(bytes, most, take))
        })
        .await
    }

    /// Reads once, and hands on what came.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut Self, &mut [u8]) -> Result<(), Wrong>,
    ) -> Poll<Result<(), Trouble>> {
        LANDING.with_borrow_mut(|landing| {
            let mut buffer = ReadBuf::new(landing);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)).map_err(Trouble::System)?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Err(Trouble::System(io::ErrorKind::UnexpectedEof.into())));
            }
            Poll::Ready(take(self, buffer.filled_mut()).map_err(Trouble::Wrong))
        })
    }

    /// Sends a statement. Its answer is read by [`Self::hear`].
    pub(crate) async fn ask(&mut self, sql: &str) -> Result<(), Failure> {
        self.packets.begin_command();
        self.answer = Answer::new();
        let mut payload = Vec::with_capacity(sql.len() + 1);
        payload.push(COM_QUERY);
        payload.extend_from_slice(sql.as_bytes());
        self.write(&payload).await.map_err(|error| Failure::of_asking(&error))
    }

    /// Reads once from the answer, when `may` lets it; hands each item on. True at the end of the answer; None where
    /// `may` did not let it.
    pub(crate) async fn hear(
        &mut self,
        may: &(dyn Fn() -> bool + Sync),
        take: &mut (dyn FnMut(Item<'_>) + Send),
    ) -> Result<Option<bool>, Failure> {
        std::future::poll_fn(|context| {
            if !may() {
                return Poll::Ready(Ok(None));
            }
            let read = self.poll_read(context, |connection, bytes| {
                connection.answer.bytes(&mut connection.packets, bytes, MOST_ROW_BYTES, take)
            });
            read.map(|read| match read {
                Ok(()) => Ok(Some(self.answer.is_ended())),
                Err(trouble) => Err(trouble.while_asking()),
            })
        })
        .await
    }

    /// Says goodbye, without which servers count an aborted client, and closes.
    pub(crate) async fn close(mut self) {
        self.packets.begin_command();
        // Whatever comes of it, the socket is closed.
        if let Stream::Tcp(stream) = &self.stream {
            let mut framed = Vec::new();
            self.packets.frame(&[COM_QUIT], &mut framed);
            // It leaves with the end of the stream, in one segment: what is sent last and at once fits the socket.
            let _ = rustix::net::send(stream, &framed, SendFlags::MORE | SendFlags::NOSIGNAL);
            return;
        }
        let _ = self.write(&[COM_QUIT]).await;
        if let Stream::Tls(stream) = &mut self.stream {
            let _ = stream.shutdown().await;
        }
    }
}

/// Why there is no connection.
enum NotOpen {
    /// TLS did not work.
    Tls(Failure),
    Other(Failure),
}

impl NotOpen {
    fn into_failure(self) -> Failure {
        match self {
            Self::Tls(failure) | Self::Other(failure) => failure,
        }
    }
}

impl From<Failure> for NotOpen {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}
