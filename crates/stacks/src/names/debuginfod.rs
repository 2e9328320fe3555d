//! Debug files from debuginfod servers, when `DEBUGINFOD_URLS` names some.
//!
//! In: a build id. Out: the path of a debug file, in the cache that elfutils' tools and gdb share:
//! `$DEBUGINFOD_CACHE_PATH`, else `$XDG_CACHE_HOME/debuginfod_client`, else `~/.cache/debuginfod_client`; in it
//! `BUILDID/debuginfo`. An empty file there says that no server had it lately.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

    /// `urls` are separated by spaces.
    pub(crate) fn new(urls: &str, cache: PathBuf, patience: Duration) -> Option<Self> {
        let of_web = |url: &&str| url.starts_with("http://") || url.starts_with("https://");
        let urls: Vec<String> = urls
            .split_ascii_whitespace()
            .filter(of_web)
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        (!urls.is_empty()).then_some(Self { urls, cache, patience, trouble: None })
    }

    /// The debug file of a build id, from the cache or from the first server that has it.
    pub(crate) fn find(&mut self, build_id: &str) -> Option<PathBuf> {
        let folder = self.cache.join(build_id);
        let cached = folder.join("debuginfo");
        if let Ok(metadata) = fs::metadata(&cached) {
            if metadata.len() > 0 {
                return Some(cached);
            }
            if metadata.modified().ok()?.elapsed().is_ok_and(|age| age < MISS) {
                return None;
            }
        }
        if self.patience.is_zero() {
            return None;
        }
        let begun = Instant::now();
        let found = self.download(build_id, &folder, &cached);
        self.patience = self.patience.saturating_sub(begun.elapsed());
        match found {
            Ok(found) => found.then_some(cached),
            Err(error) => {
                // A server that cannot be reached would cost the same time for every file.
                self.patience = Duration::ZERO;
                self.trouble = Some(format!("debuginfod: {error}; functions may have no names"));
                None
            }
        }
    }

    fn download(&self, build_id: &str, folder: &Path, cached: &Path) -> io::Result<bool> {
        fs::create_dir_all(folder)?;
        let config = ureq::Agent::config_builder().timeout_global(Some(self.patience)).build();
        let agent = ureq::Agent::new_with_config(config);
        for url in &self.urls {
            let asked = agent
                .get(format!("{url}/buildid/{build_id}/debuginfo"))
                .header("User-Agent", concat!("spindoctor/", env!("CARGO_PKG_VERSION")))
                .call();
            match asked {
                Ok(mut answer) => {
                    // Complete or not there: another tool may look at the cache meanwhile.
                    let partial = folder.join(format!("debuginfo.{}", std::process::id()));
                    let saved = File::create(&partial)
                        .and_then(|mut file| io::copy(&mut answer.body_mut().as_reader(), &mut file))
                        .and_then(|_| fs::rename(&partial, cached));
                    if let Err(error) = saved {
                        let _ = fs::remove_file(&partial);
                        return Err(error);
                    }
                    return Ok(true);
                }
                Err(ureq::Error::StatusCode(404)) => (),
                Err(error) => return Err(io::Error::other(format!("{url}: {error}"))),
            }
        }
        File::create(cached)?;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
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

    #[test]
    fn a_file_is_downloaded_once_into_the_cache_that_others_share() {
        let cache = tempfile::tempdir().unwrap();
        let (empty_handed, first) = server(vec![MISSING]);
        let (url, second) = server(vec![FOUND]);
        let mut client = Debuginfod::new(
            &format!("{empty_handed}/ {url}"),
            cache.path().to_owned(),
            Duration::from_secs(60),
        )
        .unwrap();
        let path = client.find("abcd12").unwrap();
        assert_eq!(path, cache.path().join("abcd12/debuginfo"));
        assert_eq!(fs::read(&path).unwrap(), b"\x7fELF");
        assert_eq!(first.join().unwrap(), ["GET /buildid/abcd12/debuginfo HTTP/1.1"]);
        assert_eq!(second.join().unwrap(), ["GET /buildid/abcd12/debuginfo HTTP/1.1"]);
        // Both servers are gone: this is from the cache.
        assert_eq!(client.find("abcd12"), Some(path));
        assert_eq!(client.trouble, None);
    }

    #[test]
    fn what_no_server_has_is_not_asked_for_again() {
        let cache = tempfile::tempdir().unwrap();
        let (url, asked) = server(vec![MISSING]);
        let mut client = Debuginfod::new(&url, cache.path().to_owned(), Duration::from_secs(60)).unwrap();
        assert_eq!(client.find("abcd12"), None);
        assert_eq!(asked.join().unwrap().len(), 1);
        assert_eq!(client.find("abcd12"), None);
        assert_eq!(client.trouble, None, "the second answer came from the cache");
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_said_and_left_alone() {
        let cache = tempfile::tempdir().unwrap();
        // Bound and dropped: nobody listens there.
        let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
        let mut client = Debuginfod::new(&url, cache.path().to_owned(), Duration::from_secs(60)).unwrap();
        assert_eq!(client.find("abcd12"), None);
        assert!(
            client.trouble.as_ref().is_some_and(|trouble| trouble.contains(&url)),
            "{:?}",
            client.trouble
        );
        assert_eq!(client.patience, Duration::ZERO);
    }

    #[test]
    fn a_download_that_breaks_off_leaves_nothing_behind() {
        let cache = tempfile::tempdir().unwrap();
        let (url, asked) = server(vec![b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\nshort"]);
        let mut client = Debuginfod::new(&url, cache.path().to_owned(), Duration::from_secs(60)).unwrap();
        assert_eq!(client.find("abcd12"), None);
        asked.join().unwrap();
        assert_eq!(fs::read_dir(cache.path().join("abcd12")).unwrap().count(), 0);
    }
}
