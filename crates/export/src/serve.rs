//! The small HTTP server behind `record --metrics`: `GET /metrics` and `GET /-/healthy`, nothing else.
//!
//! It reads only the first line and the headers of a request, keeps few connections, each for a short time, and answers
//! with the text that the recorder published last.

use std::collections::VecDeque;
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
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::prometheus;

/// Connections at once: a Prometheus or two, and somebody who looks. The oldest makes room for one more: who answers
/// quickly is gone by then, and who says nothing keeps nobody out.
const MOST_CONNECTIONS: usize = 64;
/// How long the heads of a request may take. Prometheus sends them in one packet.
const HEADS_WITHIN: Duration = Duration::from_secs(1);
/// How long a connection may live, whatever it does. One request is answered on each.
const LONGEST: Duration = Duration::from_secs(10);
/// After an error of accept(2), such as too many open files, it is tried again.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The address that a user names: `127.0.0.1:19104`, `[::1]:19104`; a port alone is of the loopback.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let loopback = |port: &str| Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port.parse().ok()?));
    text.parse().ok().or_else(|| loopback(text.strip_prefix(':').unwrap_or(text))).ok_or_else(|| {
        format!("{text:?} is not an address and port; write 127.0.0.1:19104, or 19104 for the loopback")
    })
}

/// Answers until it is dropped. `page` holds the metrics as text.
pub async fn serve(listener: TcpListener, page: watch::Receiver<Arc<str>>) {
    serve_within(listener, page, HEADS_WITHIN).await;
}

/// The same, with as much time for the heads of a request.
async fn serve_within(listener: TcpListener, page: watch::Receiver<Arc<str>>, heads_within: Duration) {
    // The oldest first.
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= MOST_CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let page = page.clone();
        let connection = tokio::spawn(async move {
            let answer = service_fn(|request| {
                let answered = answer(&request, &page.borrow());
                async move { Ok::<_, Infallible>(answered) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(heads_within)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            // Who breaks the connection off, or takes too long, has had what he gets.
            drop(tokio::time::timeout(heads_within + LONGEST, connection).await);
        });
        open.push_back(connection.abort_handle());
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
    async fn half_open_requests_do_not_delay_a_scrape() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let (_publish, page) = watch::channel(Arc::from("spindoctor_up 1\n"));
        // None of them times out in this test: who comes after them is answered all the same.
        let server = tokio::spawn(serve_within(listener, page, Duration::from_secs(3_600)));
        let mut half_open = Vec::new();
        for _ in 0..5 * MOST_CONNECTIONS {
            let mut stream = TcpStream::connect(to).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").await.unwrap();
            half_open.push(stream);
        }
        for _ in 0..3 {
            let answered = said(to, &get("/metrics")).await;
            assert!(answered.ends_with("spindoctor_up 1\n"), "{answered}");
        }
        server.abort();
    }

    #[tokio::test]
    async fn a_half_open_request_is_hung_up_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let (_publish, page) = watch::channel(Arc::from("spindoctor_up 1\n"));
        let server = tokio::spawn(serve(listener, page));
        let mut silent = TcpStream::connect(to).await.unwrap();
        let mut half_open = TcpStream::connect(to).await.unwrap();
        half_open.write_all(b"GET /metrics HTTP/1.1\r\nHost:").await.unwrap();
        for stream in [&mut silent, &mut half_open] {
            // The test ends when the server hangs up; it has no time of its own.
            let mut received = Vec::new();
            let _ = stream.read_to_end(&mut received).await;
            assert!(!received.windows(9).any(|text| text == b"spindocto"), "{received:?}");
        }
        // A request that is answered is the last one of its connection.
        assert!(said(to, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.ends_with("spindoctor_up 1\n"));
        assert_eq!(HEADS_WITHIN, Duration::from_secs(1));
        server.abort();
    }

    #[test]
    fn a_port_alone_is_of_the_loopback() {
        for (text, is) in [
            ("19104", "127.0.0.1:19104"),
            (":19104", "127.0.0.1:19104"),
            ("0.0.0.0:19104", "0.0.0.0:19104"),
            ("[::1]:19104", "[::1]:19104"),
        ] {
            assert_eq!(address(text), Ok(is.parse().unwrap()), "{text}");
        }
        assert!(address("localhost").unwrap_err().contains("127.0.0.1:19104"));
    }
}
