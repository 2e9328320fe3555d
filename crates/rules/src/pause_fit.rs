//! The measured length of a PAUSE beside what is published on that CPU, and the latch spin that follows from it beside what it
//! was meant to last. Neither is a finding: whether any thread spins is not known here.

use spindoctor_model::host::{CpuModel, PauseLatency};
use spindoctor_model::microarchitecture::named;
use spindoctor_model::pause_fit::{LatchSpinFit, PauseFit, Verdict};
use spindoctor_model::{Unavailable, Window};

use crate::latch_spin::LatchSpin;

/// Times a published number, up and down, within which a measured one is the same: the geometric middle between the 44 cycles of
/// Cascade Lake and the 140 of Skylake is 1.78 times the one and the other.
const SAME: f64 = 1.75;

/// Compares what a CPU is and what was measured on it.
pub fn compare(cpu: &CpuModel, pause: &PauseLatency) -> PauseFit {
    let unknown = |microarchitecture, because: String| PauseFit {
        microarchitecture,
        expected_cycles: None,
        source: None,
        measured_cycles: pause.core_cycles,
        verdict: Verdict::Unknown,
        because,
    };
    if cpu.is_masked() {
        return unknown(None, format!("a hypervisor hides which CPU it is: it shows \"{}\"", cpu.name));
    }
    let Some(core) = cpu.microarchitecture.as_deref().and_then(named) else {
        return unknown(None, "the microarchitecture is not known".to_owned());
    };
    let instruction = pause.instruction.to_uppercase();
    let Some(published) = core.published(&pause.instruction) else {
        return unknown(
            Some(core.name),
            format!("no published length of {instruction} on {} is known", core.name),
        );
    };
    let verdict = match pause.core_cycles {
        None => Verdict::Unknown,
        Some(cycles) if cycles < published.least_cycles / SAME => Verdict::Shorter,
        Some(cycles) if cycles > published.most_cycles * SAME => Verdict::Longer,
        Some(_) => Verdict::AsExpected,
    };
    PauseFit {
        microarchitecture: Some(core.name),
        expected_cycles: Some((published.least_cycles, published.most_cycles)),
        source: Some(published.source),
        measured_cycles: pause.core_cycles,
        verdict,
        because: match pause.core_cycles {
            None => "it was not measured in cycles".to_owned(),
            Some(_) => String::new(),
        },
    }
}

/// How long a full spin on a latch lasts with a server's settings on its CPU.
///
/// # Errors
/// The settings or the PAUSE are not known.
pub fn latch_spin(window: &Window) -> Result<LatchSpinFit, Unavailable> {
    let spin = LatchSpin::from_window(window)?;
    let fits = spin.fits() || spin.mean_us() == 0.0;
    let would_fit = if fits { Vec::new() } else { spin.corrected() };
    Ok(LatchSpinFit {
        mean_us: spin.mean_us(),
        meant_us: spin.as_meant().mean_us(),
        settings: spin.words(),
        fits,
        would_fit: would_fit.iter().map(|correction| (correction.variable, correction.to)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, answer};

    fn cpu(name: &str, microarchitecture: Option<&str>, virtualised: bool) -> CpuModel {
        CpuModel {
            name: name.to_owned(),
            vendor: "GenuineIntel".to_owned(),
            family_model: Some((6, 85)),
            microarchitecture: microarchitecture.map(str::to_owned),
            virtualised,
        }
    }

    fn pause(core_cycles: Option<f64>) -> PauseLatency {
        PauseLatency { instruction: "pause".to_owned(), ns: 20.0, core_cycles, ..PauseLatency::default() }
    }

    #[test]
    fn each_generation_of_the_published_case_is_another_one() {
        let verdict = |microarchitecture, cycles| {
            let cpu = cpu("Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", Some(microarchitecture), true);
            compare(&cpu, &pause(Some(cycles))).verdict
        };
        let all = [("Broadwell", 10.0), ("Cascade Lake", 44.0), ("Skylake", 140.0)];
        for (at, (name, _)) in all.iter().enumerate() {
            for (other, (_, cycles)) in all.iter().enumerate() {
                let wanted = match other.cmp(&at) {
                    std::cmp::Ordering::Less => Verdict::Shorter,
                    std::cmp::Ordering::Equal => Verdict::AsExpected,
                    std::cmp::Ordering::Greater => Verdict::Longer,
                };
                assert_eq!(verdict(name, *cycles), wanted, "{name} {cycles}");
            }
        }
    }

    #[test]
    fn what_a_hypervisor_hides_is_never_guessed() {
        let hidden = cpu("Intel Xeon Processor (Cascadelake)", Some("Cascade Lake"), true);
        let fit = compare(&hidden, &pause(Some(44.0)));
        assert_eq!((fit.verdict, fit.microarchitecture, fit.expected_cycles), (Verdict::Unknown, None, None));
        assert!(fit.because.contains("hides") && fit.because.contains("(Cascadelake)"), "{}", fit.because);
        let unknown = compare(&cpu("Intel(R) Xeon(R) 9999", None, false), &pause(Some(44.0)));
        assert_eq!(unknown.verdict, Verdict::Unknown);
        let unpublished = compare(&cpu("Intel(R) Xeon(R) 8358", Some("Ice Lake"), false), &pause(Some(44.0)));
        assert_eq!(
            (unpublished.verdict, unpublished.microarchitecture),
            (Verdict::Unknown, Some("Ice Lake"))
        );
        let unmeasured = compare(&cpu("Intel(R) Xeon(R) 4210", Some("Cascade Lake"), false), &pause(None));
        assert_eq!((unmeasured.verdict, unmeasured.expected_cycles), (Verdict::Unknown, Some((44.0, 44.0))));
    }

    #[test]
    fn a_full_spin_is_shown_with_what_would_fit() {
        let at = |ns: f64, multiplier: &str| {
            let build = Build::busy("8.0.36").variable("innodb_spin_wait_pause_multiplier", multiplier);
            let window = build
                .each(|at_s, _, host| {
                    host.pause = answer(at_s, PauseLatency { ns, ..PauseLatency::default() });
                })
                .window();
            latch_spin(&window).unwrap()
        };
        let skylake = at(66.0, "50");
        assert!(!skylake.fits && (skylake.mean_us - 247.5).abs() < 0.1, "{skylake:?}");
        assert_eq!(skylake.would_fit, [("innodb_spin_wait_pause_multiplier", 8.0)]);
        let patched = at(66.0, "8");
        assert!(patched.fits && patched.would_fit.is_empty(), "{patched:?}");
        assert!(at(66.0, "0").fits, "who switches it off does not want it to last");
    }
}
