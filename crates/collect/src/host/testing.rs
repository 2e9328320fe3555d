//! Helpers that the tests of the sources share.

use std::path::Path;

use proptest::test_runner::{Config, TestRunner};

use super::Target;

/// Feeds a parser with text that looks somewhat like the kernel's.
pub(crate) fn never_panics<T>(parse: impl Fn(&str) -> T) {
    let words = [
        "cpu",
        "cpu0",
        "N0=",
        "kB",
        "max",
        "some ",
        "full",
        "total=",
        "0::",
        "cgroup",
        "(",
        ")",
        " - ",
        "sda",
        "é",
        "MemTotal",
        "0x",
        "0",
        "1",
        "-1",
        "4294967296",
        "18446744073709551615",
        "99999999999999999999",
        "-",
        ":",
        ",",
        "/",
        "/..",
        "=",
        " ",
        "  ",
        "\t",
        "\n",
        "\n\n",
        "\\040",
        "\0",
    ];
    let text = proptest::collection::vec(proptest::sample::select(words.to_vec()), 0..60);
    TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() })
        .run(&text, |words| {
            parse(&words.concat());
            Ok(())
        })
        .unwrap();
}

/// A document of the corpus, laid out as the tree of `/proc` and `/sys` that it is.
pub(crate) fn tree(name: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    spindoctor_corpus::document(name).unwrap().unpack(root.path()).unwrap();
    root
}

/// A part of a document of the corpus, with the line break at its end.
pub(crate) fn part(document: &str, name: &str) -> String {
    let document = spindoctor_corpus::document(document).unwrap();
    format!("{}\n", document.part(name).unwrap().text)
}

/// A process of a host below a root.
pub(crate) fn process(root: &Path, pid: u32) -> Target {
    Target::under(pid, root.join("proc"), root.join("sys"))
}

/// Process 7 of a host that the test writes below a root, with [`put`].
pub(crate) fn target(root: &Path) -> Target {
    process(root, 7)
}

/// Writes a file below a root, with the folders above it.
pub(crate) fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A cgroup with a CPU quota and a sleeping process in it; both are gone when it is dropped.
pub(crate) struct LiveCgroup {
    folder: std::path::PathBuf,
    sleeper: std::process::Child,
}

impl LiveCgroup {
    /// Makes the group, or prints why this machine does not let it. `tag` keeps tests apart.
    pub(crate) fn with_quota(tag: &str, quota_us: u64, period_us: u64) -> Option<Self> {
        let own = Target::live(std::process::id());
        let found = super::cgroup::find(&own, "cpu");
        let Ok(Some(cgroup)) = &found else {
            println!("skipped: no cpu controller here: {found:?}");
            return None;
        };
        let root = cgroup.levels.last().unwrap();
        let folder = root.folder.join(format!("spindoctor-test-{tag}-{}", std::process::id()));
        let written = std::fs::create_dir(&folder).and_then(|()| {
            if cgroup.version == 2 {
                return std::fs::write(folder.join("cpu.max"), format!("{quota_us} {period_us}"));
            }
            std::fs::write(folder.join("cpu.cfs_period_us"), period_us.to_string())?;
            std::fs::write(folder.join("cpu.cfs_quota_us"), quota_us.to_string())
        });
        if let Err(error) = written {
            let _not_made = std::fs::remove_dir(&folder);
            println!("skipped: {} cannot be made: {error}", folder.display());
            return None;
        }
        // It copies its input to nowhere: it ends with this process, whatever ends that.
        let sleeper = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let made = Self { folder, sleeper };
        std::fs::write(made.folder.join("cgroup.procs"), made.pid().to_string()).unwrap();
        Some(made)
    }

    /// The process in the group.
    pub(crate) fn pid(&self) -> u32 {
        self.sleeper.id()
    }

    /// The group's name, as `/proc/PID/cgroup` says it.
    pub(crate) fn name(&self) -> String {
        format!("/{}", self.folder.file_name().unwrap().to_string_lossy())
    }

    /// The sleeping process's input.
    pub(crate) fn input(&mut self) -> &mut std::process::ChildStdin {
        self.sleeper.stdin.as_mut().unwrap()
    }
}

impl Drop for LiveCgroup {
    fn drop(&mut self) {
        let _ended = self.sleeper.kill();
        let _reaped = self.sleeper.wait();
        // The kernel lets go of a reaped process at once, but reports it with a delay.
        for _ in 0..1_000 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::yield_now();
        }
        println!("left behind: {}", self.folder.display());
    }
}
