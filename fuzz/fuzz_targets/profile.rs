//! A saved profile that somebody sent: the file as it is, and the JSON that stands in it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_model::Profile;
use spindoctor_stacks::{aggregate, file};

fuzz_target!(|bytes: &[u8]| {
    for profile in [file::from_bytes(bytes), file::from_json(bytes)].into_iter().flatten() {
        sums(&profile);
    }
});

/// The sums over a profile rely on the checks of its file.
fn sums(profile: &Profile) {
    aggregate::spin_share(profile);
    aggregate::spinners(profile);
    let shares: f64 = aggregate::states(profile).iter().map(|(_, share)| share).sum();
    assert!(profile.observations.is_empty() || (shares - 1.0).abs() < 1e-6);
    let stopped: u64 = profile.snapshots.iter().map(|cost| cost.stopped_us).sum();
    assert!(stopped < u64::MAX);
    for seen in &profile.observations {
        assert!(profile.stacks[seen.stack as usize].frames.iter().all(|at| (*at as usize) < profile.frames.len()));
    }
}
