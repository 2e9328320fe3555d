//! The small HTTP server behind `record --metrics`: `GET /metrics` and `GET /-/healthy`, nothing else.
//!
//! It reads nothing of a request but its first line and heads, keeps few connections, each for a short time, and answers
//! with the text that the recorder published last.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::prometheus;

/// Connections at once: a Prometheus or two, and somebody who looks. Others wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 16;
/// How long the heads of a request may take.
const HEADS_WITHIN: Duration = Duration::from_secs(5);
/// How long a connection may live, whatever it does: Prometheus makes a new one.
const LONGEST: Duration = Duration::from_secs(300);
/// After an error of accept(2), such as too many open files, it is tried again.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The address that a user names: `127.0.0.1:9104`, `[::1]:9104`; a port alone is of the loopback.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let loopback = |port: &str| Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port.parse().ok()?));
    text.parse().ok().or_else(|| loopback(text.strip_prefix(':').unwrap_or(text))).ok_or_else(|| {
        format!("{text:?} is no address and port; write 127.0.0.1:9104, or 9104 for the loopback")
    })
}

/// Answers until it is dropped. `page` holds the metrics as text.
pub(crate) async fn serve(listener: TcpListener, page: watch::Receiver<Arc<str>>) {
    let free = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&free).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        let page = page.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let answered = answer(&request, &page.borrow());
                async move { Ok::<_, Infallible>(answered) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADS_WITHIN)
                .serve_connection(TokioIo::new(stream), answer);
            // Who breaks the connection off, or takes too long, has had what he gets.
            drop(tokio::time::timeout(LONGEST, connection).await);
            drop(place);
        });
    }
}

fn answer(request: &Request<Incoming>, page: &Arc<str>) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            (StatusCode::OK, prometheus::CONTENT_TYPE, Bytes::copy_from_slice(page.as_bytes()))
        }
        (&Method::GET | &Method::HEAD, "/-/healthy") => (StatusCode::OK, TEXT, Bytes::from_static(b"ok\n")),
        (_, "/metrics" | "/-/healthy") => {
            (StatusCode::METHOD_NOT_ALLOWED, TEXT, Bytes::from_static(b"only GET and HEAD\n"))
        }
        _ => (StatusCode::NOT_FOUND, TEXT, Bytes::from_static(b"there are /metrics and /-/healthy\n")),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

const TEXT: &str = "text/plain; charset=utf-8";

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    async fn said(to: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    fn get(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    }

    #[tokio::test]
    async fn the_page_that_was_published_last_is_served_and_nothing_else_is() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let (publish, page) = watch::channel(Arc::from("spindoctor_up 0\n"));
        let server = tokio::spawn(serve(listener, page));
        publish.send(Arc::from("spindoctor_up 1\n")).unwrap();
        let metrics = said(to, &get("/metrics")).await;
        assert!(
            metrics.starts_with("HTTP/1.1 200") && metrics.ends_with("\r\n\r\nspindoctor_up 1\n"),
            "{metrics}"
        );
        assert!(metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{metrics}");
        assert!(said(to, &get("/-/healthy")).await.ends_with("ok\n"));
        assert!(said(to, &get("/etc/passwd")).await.starts_with("HTTP/1.1 404"));
        let post = "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert!(said(to, post).await.starts_with("HTTP/1.1 405"));
        server.abort();
    }

    #[tokio::test]
    async fn clients_that_say_nothing_do_not_keep_others_out_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let (_publish, page) = watch::channel(Arc::from("spindoctor_up 1\n"));
        let server = tokio::spawn(serve(listener, page));
        let mut silent = Vec::new();
        for _ in 0..MOST_CONNECTIONS {
            silent.push(TcpStream::connect(to).await.unwrap());
        }
        let patience = 12 * HEADS_WITHIN;
        let answered = tokio::time::timeout(patience, said(to, &get("/metrics"))).await.unwrap();
        assert!(answered.ends_with("spindoctor_up 1\n"), "{answered}");
        server.abort();
    }

    #[test]
    fn a_port_alone_is_of_the_loopback() {
        for (text, is) in [
            ("9104", "127.0.0.1:9104"),
            (":9104", "127.0.0.1:9104"),
            ("0.0.0.0:9104", "0.0.0.0:9104"),
            ("[::1]:9104", "[::1]:9104"),
        ] {
            assert_eq!(address(text), Ok(is.parse().unwrap()), "{text}");
        }
        assert!(address("localhost").unwrap_err().contains("127.0.0.1:9104"));
    }
}
