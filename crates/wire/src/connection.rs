//! One connection: made, logged in, asked, closed. The other modules of this crate interpret the bytes.
//!
//! Everything that waits does so without a thread; what is read goes through one buffer that all connections of a
//! thread share, so that a connection that waits holds no more than its socket and a few hundred bytes. The caller has
//! the deadline: a server that sends forever is left when it is over, or when the bounds of its answer are reached.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::UnixStream;
use zeroize::Zeroizing;

use crate::answer::{Answer, Item};
use crate::login::{Account, Allowed, Login, Payload, Refused, Step};
use crate::loopback;
use crate::packets::Packets;
use crate::peer::{Channel, Endpoint, SslMode, Tls, Trust};
use crate::public_key::{MOST_KEY_BYTES, PublicKey};
use crate::stream::Stream;
use crate::tls::{self, Connectors};
use crate::{Wrong, capability, greeting};

/// A packet of a login is never larger: a greeting takes a hundred bytes, an error five hundred and twelve, a key a thousand.
const MOST_LOGIN_BYTES: usize = 16 << 10;
/// What is read at once.
const READ_BYTES: usize = 256 << 10;
/// COM_QUERY, COM_PING and COM_QUIT (MySQL's `my_command.h`).
const COM_QUERY: u8 = 3;
const COM_PING: u8 = 14;
const COM_QUIT: u8 = 1;
/// Packets of a login that come together at most: an answer and what follows it.
const MOST_AT_ONCE: usize = 8;
/// The accounts that packages of MySQL and MariaDB run the server as.
const SERVER_USERS: [&str; 2] = ["mysql", "mariadb"];

/// Whom to connect to, as whom, and what is trusted.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Where the server listens.
    pub endpoint: &'a Endpoint,
    /// TLS.
    pub tls: &'a Tls,
    /// What the user allows where the server has not proved who it is.
    pub trust: &'a Trust,
    /// Who logs in.
    pub account: Account<'a>,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum OpenError {
    /// The host's name has no address: the resolver's words.
    UnknownHost(String),
    /// Nobody was reached.
    Unreachable(io::Error),
    /// The connection broke before the login was done.
    Broken(io::Error),
    /// TLS is demanded and the server offers none.
    TlsNotOffered(SslMode),
    /// The handshake failed: the library's words.
    Tls(String),
    /// The options of TLS are of no use: the certificates cannot be read.
    TlsOptions(String),
    /// No login.
    Refused(Refused),
    /// What the other end sent does not mean anything.
    Wrong(Wrong),
}

impl From<Trouble> for OpenError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::System(error) => Self::Broken(error),
            Trouble::Wrong(wrong) => Self::Wrong(wrong),
        }
    }
}

impl From<Refused> for OpenError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Wrong(wrong) => Self::Wrong(wrong),
            other => Self::Refused(other),
        }
    }
}

/// Why there is nothing more to read.
#[derive(Debug)]
pub enum Trouble {
    /// The connection broke.
    System(io::Error),
    /// What the other end sent does not mean anything, or is more than any answer.
    Wrong(Wrong),
}

thread_local! {
    /// Where reads land. Nothing waits while it is in use.
    static LANDING: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// A connection that is logged in.
pub struct Connection {
    stream: Stream,
    packets: Packets,
    version: Arc<str>,
    id: u32,
    note: Option<Box<str>>,
    answer: Answer,
}

impl Connection {
    /// Connects and logs in. The caller has the deadline.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn open(request: &Request<'_>, connectors: &Connectors) -> Result<Self, OpenError> {
        let mode = match request.endpoint {
            // MySQL's clients use no TLS over a unix socket; nor is any needed.
            Endpoint::Socket(_) => SslMode::Disabled,
            Endpoint::Tcp { .. } => request.tls.mode,
        };
        let has_key = request.trust.server_public_key.is_some() || request.trust.get_server_public_key;
        match Self::attempt(request, mode, connectors).await {
            // PREFERRED promises no protection against an active attacker: a server whose TLS does not work is asked
            // without, as MySQL's clients do. The password itself never goes that way.
            Err(OpenError::Tls(why)) if mode == SslMode::Preferred => {
                let mut connection = Self::attempt(request, SslMode::Disabled, connectors).await?;
                connection.note = Some(format!("TLS failed: {why}; connected without TLS").into());
                Ok(connection)
            }
            // Servers take a password that is encrypted with their key without TLS only. It is in their cache then,
            // from which the login over TLS is answered.
            Err(OpenError::Refused(Refused::Unproved(Channel::Unverified)))
                if mode == SslMode::Preferred && has_key =>
            {
                let mut plain = Self::attempt(request, SslMode::Disabled, connectors).await?;
                match Self::attempt(request, mode, connectors).await {
                    // sha256_password has no cache.
                    Err(OpenError::Refused(Refused::Unproved(_))) => {
                        let note = "the password is encrypted with the server's key; connected without TLS";
                        plain.note = Some(note.into());
                        Ok(plain)
                    }
                    other => {
                        plain.close().await;
                        other
                    }
                }
            }
            other => other,
        }
    }

    async fn attempt(
        request: &Request<'_>,
        mode: SslMode,
        connectors: &Connectors,
    ) -> Result<Self, OpenError> {
        let stream = Stream::open(request.endpoint).await?;
        let mut channel = match (&stream, request.endpoint) {
            (Stream::Unix(stream), Endpoint::Socket(path)) => of_socket(path, stream),
            _ => Channel::Plain,
        };
        let version = Arc::from("");
        let mut connection =
            Self { stream, packets: Packets::new(), version, id: 0, note: None, answer: Answer::new() };
        let mut came = VecDeque::new();
        let first = connection.packet(&mut came).await?;
        let greeting = match greeting::parse(&first).map_err(OpenError::Wrong)? {
            Ok(greeting) => greeting,
            Err(refused) => return Err(Refused::Server(refused).into()),
        };
        connection.version = Arc::from(greeting.version.as_str());
        connection.id = greeting.id;
        let offers_tls = greeting.capabilities & capability::SSL != 0;
        let key = match (&request.trust.server_public_key, channel) {
            (Some(path), Channel::Plain) if !offers_tls || mode == SslMode::Disabled => Some(read_key(path)?),
            _ => None,
        };
        let allowed = Allowed {
            key: key.as_ref(),
            any_key: request.trust.get_server_public_key,
            unverified_server: request.trust.unverified_server,
        };
        let mut login = Login::new(greeting, request.account, allowed, channel);
        if offers_tls && mode != SslMode::Disabled {
            let tls_request = login.tls_request();
            connection.send(tls_request.bytes()).await?;
            connection.encrypt(request, &came, connectors, &login.response()).await?;
            channel = match request.tls.proves_the_server() {
                true => Channel::Verified,
                false => Channel::Unverified,
            };
            login.is_encrypted_now(channel);
        } else if mode > SslMode::Preferred {
            return Err(OpenError::TlsNotOffered(mode));
        } else {
            connection.send(login.response().bytes()).await?;
        }
        loop {
            let packet = connection.packet(&mut came).await?;
            let step = match login.packet(&packet) {
                Err(Refused::Unproved(Channel::Unverified)) if connection.is_of_a_trusted_process() => {
                    login.is_known_to_the_kernel()
                }
                other => other,
            };
            match step? {
                Step::Send(payload) => connection.send(payload.bytes()).await?,
                Step::Wait => {}
                // What came with it was not asked for.
                Step::Done if !came.is_empty() => {
                    return Err(OpenError::Wrong(Wrong("an answer that nobody asked for")));
                }
                Step::Done => return Ok(connection),
            }
        }
    }

    /// What the server says it is: `9.7.4`, `5.5.5-10.11.19-MariaDB`.
    pub fn version(&self) -> &Arc<str> {
        &self.version
    }

    /// The server's number of this connection.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// True where the bytes are encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// What had to be given up on the way here.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// True where it was not closed meanwhile and nothing came that was not asked for: it may be asked again after a pause.
    pub fn is_idle(&self) -> bool {
        self.packets.is_between() && self.stream.is_quiet()
    }

    /// Makes the connection one of TLS. The first packet in it leaves in one write with the end of the handshake, once that
    /// has verified all that it must: until then the library keeps it back.
    async fn encrypt(
        &mut self,
        request: &Request<'_>,
        came: &VecDeque<Vec<u8>>,
        connectors: &Connectors,
        first: &Payload,
    ) -> Result<(), OpenError> {
        // What came before the encryption began could be anybody's.
        if !came.is_empty() || !self.packets.is_between() {
            return Err(OpenError::Wrong(Wrong("words before TLS stands")));
        }
        let (Endpoint::Tcp { host, port }, Stream::Tcp(stream)) =
            (request.endpoint, std::mem::replace(&mut self.stream, Stream::Nothing))
        else {
            return Err(OpenError::TlsOptions("TLS is for TCP".to_owned()));
        };
        let connector = connectors.connector(request.tls, host, *port).map_err(OpenError::TlsOptions)?;
        let mut framed = Zeroizing::new(Vec::with_capacity(first.bytes().len() + 4));
        self.packets.frame(first.bytes(), &mut framed);
        let mut kept_back = Ok(());
        let handshake = connector.connect_with(tls::name(host), stream, |session| {
            kept_back = session.writer().write_all(&framed);
        });
        kept_back.map_err(OpenError::Broken)?;
        let encrypted = handshake.await.map_err(|error| OpenError::Tls(error.to_string()))?;
        self.stream = Stream::Tls(Box::new(encrypted));
        Ok(())
    }

    /// True where the other end is a process of this host, over loopback, of a user that may have the password.
    fn is_of_a_trusted_process(&self) -> bool {
        let Stream::Tls(stream) = &self.stream else { return false };
        let stream = stream.get_ref().0;
        let (Ok(peer), Ok(own)) = (stream.peer_addr(), stream.local_addr()) else { return false };
        peer.ip().to_canonical().is_loopback() && loopback::owner(peer, own).is_some_and(may_be_the_server)
    }

    /// The next packet of the login.
    async fn packet(&mut self, came: &mut VecDeque<Vec<u8>>) -> Result<Vec<u8>, OpenError> {
        loop {
            if let Some(packet) = came.pop_front() {
                return Ok(packet);
            }
            let mut take = |payload: &[u8]| {
                if came.len() >= MOST_AT_ONCE {
                    return Err(Wrong("more at once than any login has"));
                }
                came.push_back(payload.to_vec());
                Ok(())
            };
            self.read(MOST_LOGIN_BYTES, &mut take).await?;
        }
    }

    /// Sends a payload of the login.
    async fn send(&mut self, payload: &[u8]) -> Result<(), OpenError> {
        self.write(payload).await.map_err(OpenError::Broken)
    }

    async fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        // It may be a password.
        let mut framed = Zeroizing::new(Vec::with_capacity(payload.len() + 4));
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
    ///
    /// # Errors
    /// The connection broke.
    pub async fn ask(&mut self, sql: &str) -> io::Result<()> {
        let mut payload = Vec::with_capacity(sql.len() + 1);
        payload.push(COM_QUERY);
        payload.extend_from_slice(sql.as_bytes());
        self.command(&payload).await
    }

    /// Asks for nothing (`COM_PING`). That the server answers is read by [`Self::hear`].
    ///
    /// # Errors
    /// The connection broke.
    pub async fn ping(&mut self) -> io::Result<()> {
        self.command(&[COM_PING]).await
    }

    async fn command(&mut self, payload: &[u8]) -> io::Result<()> {
        self.packets.begin_command();
        self.answer = Answer::new();
        self.write(payload).await
    }

    /// Reads once from the answer, when `may` lets it; hands each item on. True at the end of the answer; None where
    /// `may` did not let it. A row of more than `most_row_bytes` is refused before it is kept.
    ///
    /// # Errors
    /// The connection broke, or what comes is no answer: it is of no more use.
    pub async fn hear(
        &mut self,
        may: &(dyn Fn() -> bool + Sync),
        most_row_bytes: usize,
        take: &mut (dyn FnMut(Item<'_>) + Send),
    ) -> Result<Option<bool>, Trouble> {
        std::future::poll_fn(|context| {
            if !may() {
                return Poll::Ready(Ok(None));
            }
            let read = self.poll_read(context, |connection, bytes| {
                connection.answer.bytes(&mut connection.packets, bytes, most_row_bytes, take)
            });
            read.map(|read| match read {
                Ok(()) => Ok(Some(self.answer.is_ended())),
                Err(trouble) => Err(trouble),
            })
        })
        .await
    }

    /// Waits until the server has sent something, or the connection has ended. Who gave an answer up keeps the connection for so long:
    /// the server is at the statement until then, whether or not somebody waits. The connection is of no more use.
    pub async fn until_something_comes(&mut self) {
        let _ = self.stream.read(&mut [0]).await;
    }

    /// Says goodbye, without which servers count an aborted client, and closes.
    pub async fn close(mut self) {
        self.packets.begin_command();
        let mut framed = Vec::new();
        self.packets.frame(&[COM_QUIT], &mut framed);
        self.stream.end(&framed).await;
    }
}

/// Whether a socket is one that only the server's own folder could hold.
///
/// Where everybody may write the folder (`/tmp`), anybody could have made a socket of this name while the server was
/// down: there the kernel says whose process listens, and it must be root's, our own user's or the server's.
fn of_socket(path: &Path, stream: &UnixStream) -> Channel {
    let is_open = |folder: &Path| {
        std::fs::metadata(folder).map_or(true, |found| found.permissions().mode() & 0o002 != 0)
    };
    let folder = path.parent().and_then(|folder| match folder.as_os_str().is_empty() {
        true => std::env::current_dir().ok(),
        false => folder.canonicalize().ok(),
    });
    if folder.is_some_and(|folder| !folder.ancestors().any(is_open)) {
        return Channel::Socket;
    }
    let is_trusted = stream.peer_cred().is_ok_and(|peer| may_be_the_server(peer.uid()));
    if is_trusted { Channel::Socket } else { Channel::OpenSocket }
}

/// Whose processes may be the server: root's, our own user's, or those of the accounts that servers run as.
fn may_be_the_server(uid: u32) -> bool {
    uid == 0
        || uid == rustix::process::geteuid().as_raw()
        || std::fs::read_to_string("/etc/passwd").is_ok_and(|text| is_server(uid, &text))
}

/// True where a user of this number is one that servers run as: `mysql:x:104:110:MySQL Server,,,:/nonexistent:/bin/false`
fn is_server(uid: u32, passwd: &str) -> bool {
    passwd.lines().any(|line| {
        let mut fields = line.split(':');
        let name = fields.next().unwrap_or_default();
        SERVER_USERS.contains(&name) && fields.nth(1).and_then(|number| number.parse().ok()) == Some(uid)
    })
}

fn read_key(path: &Path) -> Result<PublicKey, OpenError> {
    let read = || {
        let mut pem = Vec::new();
        File::open(path)?.take(MOST_KEY_BYTES as u64 + 1).read_to_end(&mut pem)?;
        Ok::<_, io::Error>(pem)
    };
    let refused = |why: String| OpenError::Refused(Refused::Key(format!("{}: {why}", path.display())));
    let pem = read().map_err(|error| refused(error.to_string()))?;
    PublicKey::from_pem(&pem).map_err(refused)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[tokio::test]
    async fn a_socket_in_an_open_folder_is_trusted_where_its_process_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let stream = UnixStream::connect(&path).await.unwrap();
        // Ours: this test's own user listens.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(of_socket(&path, &stream), Channel::Socket);
        drop(listener);
        let passwd =
            "root:x:0:0:root:/root:/bin/bash\nmysql:x:104:110:MySQL Server,,,:/nonexistent:/bin/false\n";
        assert!(is_server(104, passwd) && !is_server(0, passwd) && !is_server(105, passwd));
    }
}
