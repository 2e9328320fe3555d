//! Debug files from debuginfod servers, when `DEBUGINFOD_URLS` names some.
//!
//! In: a build id. Out: the path of a debug file, in the cache that elfutils' tools and gdb share:
//! `$DEBUGINFOD_CACHE_PATH`, else `$XDG_CACHE_HOME/debuginfod_client`, else `~/.cache/debuginfod_client`; in it
//! `BUILDID/debuginfo`. An empty file there says that no server had it lately.
//!
//! Only https is spoken, redirects included: an attacker who changes an answer on its way would choose what root reads.
//! An answer is bounded in size and time. The cache is written only where it belongs to the user who runs this program,
//! and to nobody else.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::target_file;

/// No debug file is larger: that of MySQL 9.7 has 500 MiB, packed 150.
const LARGEST: u64 = 1 << 30;

/// From one server to another, over https.
const MOST_REDIRECTS: u32 = 3;

/// For how long an empty file means that nobody has it: elfutils' `cache_miss_s`.
const MISS: Duration = Duration::from_secs(600);

/// How long all downloads for one process may take together, where `DEBUGINFOD_TIMEOUT` does not say (seconds):
/// somebody waits for the stacks.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks debuginfod servers.
#[derive(Debug)]
pub(crate) struct Debuginfod {
    urls: Vec<String>,
    cache: PathBuf,
    /// What is left of the time to wait.
    patience: Duration,
    /// An answer may have so many bytes.
    largest: u64,
    /// True but in tests.
    https_only: bool,
    /// What went wrong, once.
    pub(crate) trouble: Option<String>,
}

impl Debuginfod {
    /// As the environment says; none where no server is named.
    pub(crate) fn from_environment() -> Option<Self> {
        let urls = env::var("DEBUGINFOD_URLS").ok()?;
        let path = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = path("DEBUGINFOD_CACHE_PATH").or_else(|| {
            let caches = path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")))?;
            Some(caches.join("debuginfod_client"))
        })?;
        let seconds =
            env::var("DEBUGINFOD_TIMEOUT").ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
        Self::new(&urls, cache, seconds.filter(|patience| !patience.is_zero()).unwrap_or(PATIENCE))
    }

    /// `urls` are separated by spaces; those that are not of https are left out, and said.
    pub(crate) fn new(urls: &str, cache: PathBuf, patience: Duration) -> Option<Self> {
        let (urls, refused): (Vec<&str>, Vec<&str>) =
            urls.split_ascii_whitespace().partition(|url| url.starts_with("https://"));
        if urls.is_empty() && refused.is_empty() {
            return None;
        }
        let trouble = refused.first().map(|url| {
            format!("debuginfod: {url} is not asked: only https:// is safe; functions may have no names")
        });
        let urls = urls.into_iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
        Some(Self { urls, cache, patience, largest: LARGEST, https_only: true, trouble })
    }

    /// The debug file of a build id, from the cache or from the first server that has it.
    pub(crate) fn find(&mut self, build_id: &str) -> Option<File> {
        // It becomes a part of a path and of a URL.
        if build_id.is_empty() || !build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let folder = self.cache.join(build_id);
        let cached = folder.join("debuginfo");
        if let Ok(file) = target_file::of_proc(&cached) {
            let metadata = file.metadata().ok()?;
            if metadata.len() > 0 {
                return Some(file);
            }
            if metadata.modified().ok()?.elapsed().is_ok_and(|age| age < MISS) {
                return None;
            }
        }
        if self.patience.is_zero() || self.urls.is_empty() {
            return None;
        }
        let begun = Instant::now();
        let found = self.download(build_id, &folder, &cached);
        self.patience = self.patience.saturating_sub(begun.elapsed());
        found.unwrap_or_else(|error| {
            // A server that cannot be reached would cost the same time for every file.
            self.patience = Duration::ZERO;
            self.trouble = Some(format!("debuginfod: {error}; functions may have no names"));
            None
        })
    }

    /// A build id's folder in the cache, made where it is missing.
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        for folder in [&self.cache, folder] {
            let metadata = fs::symlink_metadata(folder)?;
            let is_ours = metadata.is_dir()
                && metadata.uid() == rustix::process::geteuid().as_raw()
                && metadata.mode() & 0o022 == 0;
            if !is_ours {
                return Err(io::Error::other(format!(
                    "{} is not written to: others may change it; set DEBUGINFOD_CACHE_PATH to a folder of your own",
                    folder.display()
                )));
            }
        }
        Ok(())
    }

    fn download(&self, build_id: &str, folder: &Path, cached: &Path) -> io::Result<Option<File>> {
        self.make_folder(folder)?;
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(self.patience))
            .https_only(self.https_only)
            .max_redirects(MOST_REDIRECTS)
            .build();
        let agent = ureq::Agent::new_with_config(config);
        for url in &self.urls {
            let asked = agent
                .get(format!("{url}/buildid/{build_id}/debuginfo"))
                .header("User-Agent", concat!("spindoctor/", env!("CARGO_PKG_VERSION")))
                .call();
            match asked {
                Ok(mut answer) => {
                    // Complete or not there: another tool may look at the cache meanwhile.
                    let mut partial = tempfile::NamedTempFile::new_in(folder)?;
                    let mut body = answer.body_mut().as_reader().take(self.largest + 1);
                    if io::copy(&mut body, &mut partial)? > self.largest {
                        let most = self.largest >> 20;
                        return Err(io::Error::other(format!("{url}: the answer is larger than {most} MiB")));
                    }
                    partial.flush()?;
                    partial.persist(cached)?;
                    return target_file::of_proc(cached).map(Some);
                }
                Err(ureq::Error::StatusCode(404)) => (),
                Err(error) => return Err(io::Error::other(format!("{url}: {error}"))),
            }
        }
        tempfile::NamedTempFile::new_in(folder)?.persist(cached)?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Serves `answers`, one to each connection; says what was asked.
    fn server(answers: Vec<&'static [u8]>) -> (String, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = thread::spawn(move || {
            let serve = |answer: &[u8]| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                let mut buffer = [0; 1024];
                while !request.ends_with(b"\r\n\r\n") {
                    let read = stream.read(&mut buffer).unwrap();
                    assert!(read > 0, "the request ended early");
                    request.extend_from_slice(&buffer[..read]);
                }
                stream.write_all(answer).unwrap();
                String::from_utf8(request).unwrap().lines().next().unwrap().to_owned()
            };
            answers.into_iter().map(serve).collect()
        });
        (url, asked)
    }

    const FOUND: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n\x7fELF";
    const MISSING: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

    /// A client that may speak to the servers of these tests, which know no TLS.
    fn client(urls: &str, cache: &Path) -> Debuginfod {
        Debuginfod {
            urls: urls.split(' ').map(str::to_owned).collect(),
            cache: cache.to_owned(),
            patience: Duration::from_secs(60),
            largest: 64 << 10,
            https_only: false,
            trouble: None,
        }
    }

    fn text(file: Option<File>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        file?.read_to_end(&mut bytes).unwrap();
        Some(bytes)
    }

    #[test]
    fn a_file_is_downloaded_once_into_the_cache_that_others_share() {
        let cache = tempfile::tempdir().unwrap();
        let (empty_handed, first) = server(vec![MISSING]);
        let (url, second) = server(vec![FOUND]);
        let mut client = client(&format!("{empty_handed} {url}"), cache.path());
        assert_eq!(text(client.find("abcd12")).unwrap(), b"\x7fELF");
        assert_eq!(fs::read(cache.path().join("abcd12/debuginfo")).unwrap(), b"\x7fELF");
        assert_eq!(first.join().unwrap(), ["GET /buildid/abcd12/debuginfo HTTP/1.1"]);
        assert_eq!(second.join().unwrap(), ["GET /buildid/abcd12/debuginfo HTTP/1.1"]);
        // Both servers are gone: this is from the cache.
        assert_eq!(text(client.find("abcd12")).unwrap(), b"\x7fELF");
        assert_eq!(client.trouble, None);
    }

    #[test]
    fn what_no_server_has_is_not_asked_for_again() {
        let cache = tempfile::tempdir().unwrap();
        let (url, asked) = server(vec![MISSING]);
        let mut client = client(&url, cache.path());
        assert!(client.find("abcd12").is_none());
        assert_eq!(asked.join().unwrap().len(), 1);
        assert!(client.find("abcd12").is_none());
        assert_eq!(client.trouble, None, "the second answer came from the cache");
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_said_and_left_alone() {
        let cache = tempfile::tempdir().unwrap();
        // Bound and dropped: nobody listens there.
        let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
        let mut client = client(&url, cache.path());
        assert!(client.find("abcd12").is_none());
        assert!(
            client.trouble.as_ref().is_some_and(|trouble| trouble.contains(&url)),
            "{:?}",
            client.trouble
        );
        assert_eq!(client.patience, Duration::ZERO);
    }

    /// What stands in the cache after a download that failed.
    fn left_after(answer: &'static [u8]) -> (usize, String) {
        let cache = tempfile::tempdir().unwrap();
        let (url, asked) = server(vec![answer]);
        let mut client = client(&url, cache.path());
        assert!(client.find("abcd12").is_none());
        asked.join().unwrap();
        (fs::read_dir(cache.path().join("abcd12")).unwrap().count(), client.trouble.unwrap())
    }

    #[test]
    fn a_download_that_breaks_off_leaves_nothing_behind() {
        let (files, _) = left_after(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\nshort");
        assert_eq!(files, 0);
    }

    #[test]
    fn an_answer_without_an_end_is_cut_off_and_leaves_nothing_behind() {
        static ENDLESS: [u8; 300_000] = {
            let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
            let mut bytes = [b'x'; 300_000];
            let mut at = 0;
            while at < head.len() {
                bytes[at] = head[at];
                at += 1;
            }
            bytes
        };
        let cache = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // It may be hung up on while it sends.
        let _server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&ENDLESS);
        });
        let mut client = client(&url, cache.path());
        client.largest = 1 << 10;
        assert!(client.find("abcd12").is_none());
        assert!(client.trouble.unwrap().contains("the answer is larger"));
        assert_eq!(fs::read_dir(cache.path().join("abcd12")).unwrap().count(), 0);
    }

    #[test]
    fn http_is_not_spoken_and_that_is_said() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let cache = tempfile::tempdir().unwrap();
        let mut refusing = Debuginfod::new(&url, cache.path().to_owned(), Duration::from_secs(60)).unwrap();
        assert!(refusing.find("abcd12").is_none());
        assert!(refusing.trouble.unwrap().contains("only https:// is safe"));
        // A redirect to http is refused by the same setting, whatever stands in the list.
        let mut redirected = client(&url, cache.path());
        redirected.https_only = true;
        assert!(redirected.find("abcd12").is_none());
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "nobody connected");
        assert!(Debuginfod::new(" ", PathBuf::new(), Duration::ZERO).is_none());
    }

    #[test]
    fn a_redirect_to_http_is_refused_where_https_alone_is_spoken() {
        // ureq looks at each step of a redirect: the setting is seen at the first one here, which is of http.
        let agent = ureq::Agent::new_with_config(ureq::Agent::config_builder().https_only(true).build());
        let error = agent.get("http://127.0.0.1:9/x").call().unwrap_err();
        assert!(matches!(error, ureq::Error::RequireHttpsOnly(_)), "{error}");
    }

    #[test]
    fn a_cache_that_others_may_change_is_not_written_to() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let cache = tempfile::tempdir().unwrap();
        let mut open = client("http://127.0.0.1:9", cache.path());
        fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(open.find("abcd12").is_none());
        assert!(open.trouble.unwrap().contains("others may change it"));
        fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o700)).unwrap();
        // A link in the place of a folder leads elsewhere.
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), cache.path().join("abcd13")).unwrap();
        let mut linked = client("http://127.0.0.1:9", cache.path());
        assert!(linked.find("abcd13").is_none());
        assert!(linked.trouble.unwrap().contains("others may change it"));
        // What stands there must be a file.
        fs::create_dir(cache.path().join("abcd14")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            cache.path().join("abcd14/debuginfo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(client("http://127.0.0.1:9", cache.path()).find("abcd14").is_none());
    }

    #[test]
    fn a_build_id_is_hexadecimal() {
        let cache = tempfile::tempdir().unwrap();
        let mut client = client("http://127.0.0.1:9", cache.path());
        for hostile in ["", "../../etc", "ab/cd", "ab?x=1"] {
            assert!(client.find(hostile).is_none());
        }
        assert_eq!(client.trouble, None, "nobody was asked");
    }
}
