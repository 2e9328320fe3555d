//! What a connection's bytes go through: a socket, or TLS over one.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use crate::connection::OpenError;
use crate::peer::Endpoint;

/// Which of a server's addresses are tried is the system's order; each gets its turn within the deadline.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

/// What the bytes go through.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// For a moment, while TLS takes the stream over.
    Nothing,
}

impl Stream {
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self, OpenError> {
        match endpoint {
            Endpoint::Socket(path) => {
                UnixStream::connect(path).await.map(Self::Unix).map_err(OpenError::Unreachable)
            }
            Endpoint::Tcp { host, port } => {
                let found = addresses(host, *port)
                    .await
                    .map_err(|error| OpenError::UnknownHost(error.to_string()))?;
                let mut last = OpenError::UnknownHost("its name has none".to_owned());
                for address in found {
                    match TcpStream::connect(address).await {
                        Ok(stream) => {
                            // Questions are small and wait for answers.
                            let _ = stream.set_nodelay(true);
                            let _ = end_when_dead(&stream);
                            return Ok(Self::Tcp(stream));
                        }
                        Err(error) => last = OpenError::Unreachable(error),
                    }
                }
                Err(last)
            }
        }
    }

    /// True where the other end has not closed it and nothing waits to be read.
    pub(crate) fn is_quiet(&self) -> bool {
        let socket = match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.get_ref().0.as_fd(),
            Self::Nothing => return false,
        };
        let peeked = recv(socket, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(Errno::AGAIN))
    }

    /// Sends the last bytes and closes. Whatever comes of it, the socket is closed.
    pub(crate) async fn end(mut self, last: &[u8]) {
        match &mut self {
            Self::Tcp(stream) => send_with_the_end(stream, last),
            Self::Unix(stream) => drop(stream.write_all(last).await),
            Self::Tls(stream) => {
                let (socket, session) = stream.get_mut();
                let mut sealed = Vec::new();
                let _ = session.writer().write_all(last);
                session.send_close_notify();
                while session.wants_write() && session.write_tls(&mut sealed).is_ok() {}
                send_with_the_end(socket, &sealed);
            }
            Self::Nothing => {}
        }
    }
}

/// Sends what leaves with the end of the stream, in one segment: what is sent last and at once fits the socket.
fn send_with_the_end(socket: &TcpStream, last: &[u8]) {
    let _ = send(socket, last, SendFlags::MORE | SendFlags::NOSIGNAL);
}

/// A connection whose other end is gone without a word ends after this time, whether something was sent to it or not.
const DEAD_AFTER: Duration = Duration::from_secs(30);
/// How often the kernel asks a silent other end whether it is there (tcp(7), `TCP_KEEPIDLE`, `TCP_KEEPINTVL`).
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Has the kernel find out that nobody is there: a server that hangs is, its kernel answers.
fn end_when_dead(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_tcp_user_timeout(stream, DEAD_AFTER.as_millis() as u32)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE)?;
    sockopt::set_socket_keepalive(stream, true)
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_is_quiet_until_something_comes_or_it_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: at.port() };
        let Ok(mut stream) = Stream::open(&endpoint).await else { panic!("it listens") };
        let (mut server, _) = listener.accept().await.unwrap();
        assert!(stream.is_quiet());
        server.write_all(b"x").await.unwrap();
        let Stream::Tcp(tcp) = &stream else { panic!("it is TCP") };
        tcp.readable().await.unwrap();
        assert!(!stream.is_quiet(), "something came");
        assert_eq!(stream.read(&mut [0; 2]).await.unwrap(), 1, "and was only looked at");
        assert!(stream.is_quiet());
        drop(server);
        assert_eq!(stream.read(&mut [0; 2]).await.unwrap(), 0);
        assert!(!stream.is_quiet(), "it is closed");
    }

    #[tokio::test]
    async fn the_last_bytes_come_with_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        Stream::Tcp(stream).end(b"goodbye").await;
        let mut came = Vec::new();
        server.read_to_end(&mut came).await.unwrap();
        assert_eq!(came, b"goodbye");
    }
}
