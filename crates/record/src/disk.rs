//! Free space on the disk. A recording never uses the last 5 % of it.

use std::fmt;
use std::path::Path;

use rustix::fs::statvfs;

/// Writing stops where less than this share of the file system is free: what databases and people need to get out of
/// trouble, and what ext4 keeps for root by default.
const KEPT_FREE_RATIO: f64 = 0.05;
/// It goes on at this share. The step between keeps a recording at the edge from being torn into many pieces.
const ENOUGH_FREE_RATIO: f64 = 0.06;

/// The reason why nothing is written for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRoom {
    /// The file system is nearly full; what is left belongs to others.
    Reserved,
    /// The file system refused: full, over quota, or broken; in its own words.
    Refused(String),
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved => f.write_str("the disk has less than 5 % left"),
            Self::Refused(because) => write!(f, "the disk refused to take more: {because}"),
        }
    }
}

/// Whether a file system has room for more than what is kept free, for a caller that found room there
/// before or did not. A file system that does not report its space counts as one with room.
pub fn has_room_in(folder: &Path, had_room: bool) -> bool {
    free_ratio(folder).is_none_or(|ratio| has_room(ratio, had_room))
}

/// The share of a folder's file system that is free for this process, 0 to 1; none where the file system does not
/// report it.
fn free_ratio(folder: &Path) -> Option<f64> {
    let space = statvfs(folder).ok()?;
    (space.f_blocks > 0).then(|| space.f_bavail as f64 / space.f_blocks as f64)
}

/// Whether there is room, for a caller that had room before or had not.
fn has_room(free_ratio: f64, had_room: bool) -> bool {
    free_ratio >= if had_room { KEPT_FREE_RATIO } else { ENOUGH_FREE_RATIO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stops_at_five_percent_and_goes_on_at_six() {
        assert!(has_room(0.05, true));
        assert!(!has_room(0.049, true));
        assert!(!has_room(0.055, false));
        assert!(has_room(0.06, false));
    }
}
