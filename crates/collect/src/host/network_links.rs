//! `/sys/class/net`: how fast the host's network links are. Callers compare them with what a server sends; they are not
//! a source of a sample, because they do not change.

use spindoctor_model::Unavailable;

use super::Target;
use super::kernel_file;

/// A link that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkLink {
    /// `eth0`.
    pub name: String,
    /// Bytes a second that it can take in each direction; None where the driver does not say, as of most virtual links.
    pub bytes_per_s: Option<u64>,
}

/// The links that are up, the loopback left out, in order of name.
///
/// # Errors
/// The folder cannot be listed.
pub fn read(target: &Target) -> Result<Vec<NetworkLink>, Unavailable> {
    let folder = target.sys.join("class/net");
    let entries = std::fs::read_dir(&folder).map_err(|error| kernel_file::because(&folder, &error))?;
    let mut links: Vec<NetworkLink> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_str()?.to_owned();
            let state = kernel_file::read(&entry.path().join("operstate")).unwrap_or_default();
            if name == "lo" || state.trim() == "down" {
                return None;
            }
            // A link without a speed answers EINVAL, or -1.
            let speed = kernel_file::read(&entry.path().join("speed")).ok();
            Some(NetworkLink { name, bytes_per_s: speed.as_deref().and_then(parse_speed) })
        })
        .collect();
    links.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(links)
}

// 1000        (/sys/class/net/eth0/speed: Mbit/s; Documentation/ABI/testing/sysfs-class-net)
fn parse_speed(text: &str) -> Option<u64> {
    let megabits: i64 = text.trim().parse().ok()?;
    u64::try_from(megabits).ok().filter(|&megabits| megabits > 0)?.checked_mul(1_000_000 / 8)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{put, target};
    use super::*;

    #[test]
    fn links_that_are_up_are_shown_with_their_speed_where_the_driver_says_it() {
        let root = tempfile::tempdir().unwrap();
        for (link, state, speed) in [
            ("eth0", "up", "1000\n"),
            ("lo", "unknown", "-1\n"),
            ("eth1", "down", "1000\n"),
            ("tap0", "unknown", "-1\n"),
        ] {
            put(root.path(), &format!("sys/class/net/{link}/operstate"), state);
            put(root.path(), &format!("sys/class/net/{link}/speed"), speed);
        }
        let links = read(&target(root.path())).unwrap();
        assert_eq!(
            links,
            [
                NetworkLink { name: "eth0".into(), bytes_per_s: Some(125_000_000) },
                NetworkLink { name: "tap0".into(), bytes_per_s: None },
            ]
        );
        assert_eq!(parse_speed("99999999999999999"), None);
        assert!(read(&target(&root.path().join("nowhere"))).is_err());
    }
}
