//! CPUs by what they say of themselves, and how many core cycles one turn of a spin-wait loop takes on each: one table, with
//! the source of each number beside it.
//!
//! A row without a number is a CPU of which no measurement was found that could be checked: nothing is expected of it.

use std::ops::RangeInclusive;

use crate::host::CpuModel;

/// One kind of core.
#[derive(Debug)]
pub struct Microarchitecture {
    /// `Skylake`, `Zen 4`, `Neoverse N1`.
    pub name: &'static str,
    identity: Identity,
    /// What its PAUSE (x86-64) or ISB (aarch64) takes.
    pub spin: Option<PublishedSpin>,
}

/// What was published on the length of a PAUSE or an ISB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedSpin {
    /// The least of the published numbers, core cycles.
    pub least_cycles: f64,
    /// The greatest of them.
    pub most_cycles: f64,
    /// Who published them.
    pub source: &'static str,
}

#[derive(Debug)]
enum Identity {
    X86 {
        vendors: &'static [&'static str],
        family: u32,
        models: &'static [RangeInclusive<u32>],
        steppings: RangeInclusive<u32>,
    },
    Arm {
        implementer: u32,
        parts: &'static [u32],
    },
}

const INTEL: &[&str] = &["GenuineIntel"];
const AMD: &[&str] = &["AuthenticAMD"];
const ANY_STEPPING: RangeInclusive<u32> = 0..=u32::MAX;

const fn intel(
    name: &'static str,
    models: &'static [RangeInclusive<u32>],
    spin: Option<PublishedSpin>,
) -> Microarchitecture {
    let identity = Identity::X86 { vendors: INTEL, family: 6, models, steppings: ANY_STEPPING };
    Microarchitecture { name, identity, spin }
}

/// Skylake's server model, which two later generations have, too, with other steppings.
const fn intel_stepping(
    name: &'static str,
    steppings: RangeInclusive<u32>,
    spin: Option<PublishedSpin>,
) -> Microarchitecture {
    let identity = Identity::X86 { vendors: INTEL, family: 6, models: &[0x55..=0x55], steppings };
    Microarchitecture { name, identity, spin }
}

const fn amd(
    name: &'static str,
    family: u32,
    models: &'static [RangeInclusive<u32>],
    spin: Option<PublishedSpin>,
) -> Microarchitecture {
    let identity = Identity::X86 { vendors: AMD, family, models, steppings: ANY_STEPPING };
    Microarchitecture { name, identity, spin }
}

const fn arm(
    name: &'static str,
    implementer: u32,
    parts: &'static [u32],
    spin: Option<PublishedSpin>,
) -> Microarchitecture {
    Microarchitecture { name, identity: Identity::Arm { implementer, parts }, spin }
}

const BEFORE_SKYLAKE: Option<PublishedSpin> = Some(PublishedSpin {
    least_cycles: 10.0,
    most_cycles: 17.0,
    source: "Intel 64 and IA-32 Architectures Optimization Reference Manual, Pause Latency in Skylake: about 10 before it; \
             MariaDB, mysys/my_cpu.c: 11 to 14 on a Xeon E5-2630 v4; dotnet/coreclr pull request 14739: 14 to 17",
});

const SKYLAKE: Option<PublishedSpin> = Some(PublishedSpin {
    least_cycles: 118.0,
    most_cycles: 151.0,
    source: "the same manual: as many as 140; MariaDB, mysys/my_cpu.c: 118 to 151 on a Core i7-6500U; dotnet/coreclr pull request \
             14739: 125 to 150; Meituan's DBA team (2022): over 100 on a Xeon Silver 4110 and a Gold 5118",
});

const CASCADE_LAKE: Option<PublishedSpin> = Some(PublishedSpin {
    least_cycles: 44.0,
    most_cycles: 44.0,
    source: "Intel to Meituan's DBA team (2022), who saw it on a Xeon Silver 4210 and a Gold 5218; Guo, Zhu and Liu, Research on the \
             Impact of Intel PAUSE Instruction on Applications (2020)",
});

const ZEN_4: Option<PublishedSpin> = Some(PublishedSpin {
    least_cycles: 64.0,
    most_cycles: 64.0,
    source: "dotnet/runtime pull request 99991: documented as 64 for a Ryzen 7950X",
});

const ARM_ISB: Option<PublishedSpin> = Some(PublishedSpin {
    least_cycles: 30.0,
    most_cycles: 40.0,
    source: "travisdowns/concurrency-hierarchy-bench issue 3, of Arm's cores without naming one: an ISB delays by 30 to 40",
});

/// YIELD, which MySQL on aarch64 spun with before it took to ISB: no core that servers have waits for it.
pub const YIELD: PublishedSpin = PublishedSpin {
    least_cycles: 0.0,
    most_cycles: 1.0,
    source: "rust-lang/rust pull request 84725: it is a no-op, 0.4 ns on a Neoverse N1, whose cycle is as long",
};

/// Every kind of core that is known.
///
/// Which models are which: of Intel, Linux, arch/x86/include/asm/intel-family.h. Cascade Lake and Cooper Lake share Skylake's
/// model; the stepping distinguishes them (intel-family.h names none: Linux, arch/x86/events/intel/core.c and Intel's microcode
/// guidance do, 5 to 7 and 10 to 11). Of AMD, arch/x86/kernel/cpu/amd.c, "Figure out Zen generations", Linux 6.18. Of Arm,
/// arch/arm64/include/asm/cputype.h. A model that is of two kinds of core at once has no number: each has its own.
pub const MICROARCHITECTURES: &[Microarchitecture] = &[
    intel("Nehalem", &[0x1A..=0x1A, 0x1E..=0x1F, 0x2E..=0x2E], BEFORE_SKYLAKE),
    intel("Westmere", &[0x25..=0x25, 0x2C..=0x2C, 0x2F..=0x2F], BEFORE_SKYLAKE),
    intel("Sandy Bridge", &[0x2A..=0x2A, 0x2D..=0x2D], BEFORE_SKYLAKE),
    intel("Ivy Bridge", &[0x3A..=0x3A, 0x3E..=0x3E], BEFORE_SKYLAKE),
    intel("Haswell", &[0x3C..=0x3C, 0x3F..=0x3F, 0x45..=0x46], BEFORE_SKYLAKE),
    intel("Broadwell", &[0x3D..=0x3D, 0x47..=0x47, 0x4F..=0x4F, 0x56..=0x56], BEFORE_SKYLAKE),
    intel("Skylake", &[0x4E..=0x4E, 0x5E..=0x5E], SKYLAKE),
    intel_stepping("Skylake", 0..=4, SKYLAKE),
    intel_stepping("Cascade Lake", 5..=9, CASCADE_LAKE),
    intel_stepping("Cooper Lake", 10..=u32::MAX, None),
    intel("Kaby Lake", &[0x8E..=0x8E, 0x9E..=0x9E], None),
    intel("Comet Lake", &[0xA5..=0xA6], None),
    intel("Cannon Lake", &[0x66..=0x66], None),
    intel("Ice Lake", &[0x6A..=0x6A, 0x6C..=0x6C, 0x7D..=0x7E, 0x9D..=0x9D], None),
    intel("Rocket Lake", &[0xA7..=0xA7], None),
    intel("Tiger Lake", &[0x8C..=0x8D], None),
    intel("Sapphire Rapids", &[0x8F..=0x8F], None),
    intel("Emerald Rapids", &[0xCF..=0xCF], None),
    intel("Granite Rapids", &[0xAD..=0xAE], None),
    intel("Alder Lake", &[0x97..=0x97, 0x9A..=0x9A], None),
    intel("Raptor Lake", &[0xB7..=0xB7, 0xBA..=0xBA, 0xBF..=0xBF], None),
    intel("Meteor Lake", &[0xAA..=0xAA, 0xAC..=0xAC], None),
    intel("Arrow Lake", &[0xB5..=0xB5, 0xC5..=0xC6], None),
    intel("Lunar Lake", &[0xBD..=0xBD], None),
    intel("Sierra Forest", &[0xAF..=0xAF], None),
    intel("Clearwater Forest", &[0xDD..=0xDD], None),
    amd("Bulldozer", 0x15, &[0..=u32::MAX], None),
    amd("Zen", 0x17, &[0x00..=0x2F, 0x50..=0x5F], None),
    Microarchitecture {
        name: "Zen",
        identity: Identity::X86 {
            vendors: &["HygonGenuine"],
            family: 0x18,
            models: &[0..=u32::MAX],
            steppings: ANY_STEPPING,
        },
        spin: None,
    },
    amd("Zen 2", 0x17, &[0x30..=0x4F, 0x60..=0x7F, 0x90..=0x91, 0xA0..=0xAF], None),
    amd("Zen 3", 0x19, &[0x00..=0x0F, 0x20..=0x5F], None),
    amd("Zen 4", 0x19, &[0x10..=0x1F, 0x60..=0xAF], ZEN_4),
    amd("Zen 5", 0x1A, &[0x00..=0x2F, 0x40..=0x4F, 0x60..=0x7F], None),
    amd("Zen 6", 0x1A, &[0x50..=0x5F, 0x80..=0xAF, 0xC0..=0xCF], None),
    arm("Cortex-A53", 0x41, &[0xD03], None),
    arm("Cortex-A57", 0x41, &[0xD07], None),
    arm("Cortex-A72", 0x41, &[0xD08], None),
    arm("Cortex-A76", 0x41, &[0xD0B], None),
    arm("Neoverse N1", 0x41, &[0xD0C], ARM_ISB),
    arm("Neoverse V1", 0x41, &[0xD40], ARM_ISB),
    arm("Neoverse N2", 0x41, &[0xD49], ARM_ISB),
    arm("Neoverse V2", 0x41, &[0xD4F], ARM_ISB),
    arm("Neoverse V3", 0x41, &[0xD84], None),
    arm("Neoverse N3", 0x41, &[0xD8E], None),
    arm("ThunderX2", 0x43, &[0x0AF], None),
    arm("TaiShan v110", 0x48, &[0xD01], None),
    arm("Azure Cobalt 100", 0x6D, &[0xD49], None),
    arm("AmpereOne", 0xC0, &[0xAC3, 0xAC4], None),
];

/// An x86 CPU's row.
pub fn of_x86(vendor: &str, family: u32, model: u32, stepping: u32) -> Option<&'static Microarchitecture> {
    MICROARCHITECTURES.iter().find(|row| match &row.identity {
        Identity::X86 { vendors, family: wanted, models, steppings } => {
            vendors.contains(&vendor)
                && *wanted == family
                && models.iter().any(|models| models.contains(&model))
                && steppings.contains(&stepping)
        }
        Identity::Arm { .. } => false,
    })
}

/// An aarch64 core's row, by the implementer and part of `MIDR_EL1`.
pub fn of_arm(implementer: u32, part: u32) -> Option<&'static Microarchitecture> {
    MICROARCHITECTURES.iter().find(|row| match &row.identity {
        Identity::Arm { implementer: wanted, parts } => *wanted == implementer && parts.contains(&part),
        Identity::X86 { .. } => false,
    })
}

/// The row of that name.
pub fn named(name: &str) -> Option<&'static Microarchitecture> {
    MICROARCHITECTURES.iter().find(|row| row.name == name)
}

impl Microarchitecture {
    /// What is published on an instruction (`pause`, `isb`, `yield`) there.
    pub fn published(&self, instruction: &str) -> Option<PublishedSpin> {
        match (instruction, &self.identity) {
            ("pause", Identity::X86 { .. }) | ("isb", Identity::Arm { .. }) => self.spin,
            ("yield", Identity::Arm { .. }) => Some(YIELD),
            _ => None,
        }
    }
}

impl CpuModel {
    /// True where a hypervisor does not show which CPU it runs on: family and model are then what it was configured to say, and
    /// the microarchitecture that follows from them may be another one's.
    ///
    /// Hypervisors that pass the model on pass the maker's name of the product, too: `Intel(R) Xeon(R) Platinum 8259CL CPU @
    /// 2.50GHz`, `AMD EPYC 7R13 Processor`. QEMU's models have names of their own (target/i386/cpu.c: `Intel Xeon Processor
    /// (Cascadelake)`, `AMD EPYC-Rome Processor`, `Intel Xeon E312xx (Sandy Bridge)`); others cut the number out: `AMD EPYC`,
    /// `Intel(R) Xeon(R) CPU @ 2.20GHz`. Cores of aarch64 read their number from a register that guests read, too.
    pub fn is_masked(&self) -> bool {
        let is_x86 = self.family_model.is_some();
        is_x86 && self.virtualised && !names_a_product(&self.vendor, &self.name)
    }
}

/// True where the name holds the number of a product.
fn names_a_product(vendor: &str, name: &str) -> bool {
    // Intel has its own names registered, and QEMU's lack the sign.
    if vendor == "GenuineIntel" && !name.contains("(R)") {
        return false;
    }
    let before_frequency = name.split('@').next().unwrap_or_default();
    before_frequency.split_whitespace().any(|word| {
        let digits = word.chars().filter(char::is_ascii_digit).count();
        // `E312xx` is a class of products.
        digits >= 3 && !word.ends_with("xx") && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_has_one_row_and_every_number_a_source() {
        for (family, vendor) in
            [(6, "GenuineIntel"), (0x15, "AuthenticAMD"), (0x17, "AuthenticAMD"), (0x19, "AuthenticAMD")]
        {
            for (model, stepping) in (0..0x100).flat_map(|model| [(model, 4), (model, 7), (model, 11)]) {
                let rows = MICROARCHITECTURES.iter().filter(|row| match &row.identity {
                    Identity::X86 { vendors, family: of, models, steppings } => {
                        vendors.contains(&vendor)
                            && *of == family
                            && models.iter().any(|models| models.contains(&model))
                            && steppings.contains(&stepping)
                    }
                    Identity::Arm { .. } => false,
                });
                assert!(rows.count() <= 1, "{vendor} {family:#x} {model:#x} {stepping}");
            }
        }
        for spin in MICROARCHITECTURES.iter().filter_map(|row| row.spin).chain([YIELD]) {
            assert!(spin.least_cycles <= spin.most_cycles && spin.source.len() > 20, "{spin:?}");
        }
    }

    #[test]
    fn the_generations_of_the_published_case_differ_as_it_says() {
        let spin = |stepping| of_x86("GenuineIntel", 6, 0x55, stepping).unwrap().published("pause").unwrap();
        let broadwell = of_x86("GenuineIntel", 6, 0x4F, 1).unwrap().published("pause").unwrap();
        assert!((broadwell.least_cycles - 10.0).abs() < f64::EPSILON);
        assert!(spin(4).least_cycles > 100.0, "a Silver 4110");
        assert!((spin(7).most_cycles - 44.0).abs() < f64::EPSILON, "a Silver 4210");
        assert_eq!(of_x86("GenuineIntel", 6, 0x55, 11).unwrap().published("pause"), None, "Cooper Lake");
    }

    #[test]
    fn an_instruction_of_another_architecture_has_no_number() {
        let neoverse = of_arm(0x41, 0xD0C).unwrap();
        assert_eq!(neoverse.published("isb").map(|spin| spin.least_cycles), Some(30.0));
        assert_eq!(neoverse.published("yield"), Some(YIELD));
        assert_eq!(neoverse.published("pause"), None);
        assert_eq!(named("Zen 4").unwrap().published("isb"), None);
    }

    #[test]
    fn a_hypervisor_that_hides_the_product_is_seen() {
        let guest = |vendor: &str, name: &str| CpuModel {
            vendor: vendor.to_owned(),
            name: name.to_owned(),
            family_model: Some((6, 85)),
            virtualised: true,
            ..CpuModel::default()
        };
        for (vendor, name) in [
            ("GenuineIntel", "Intel Xeon Processor (Cascadelake)"),
            ("GenuineIntel", "Intel Xeon E312xx (Sandy Bridge, IBRS update)"),
            ("GenuineIntel", "Westmere E56xx/L56xx/X56xx (Nehalem-C)"),
            ("GenuineIntel", "Intel(R) Xeon(R) CPU @ 2.20GHz"),
            ("GenuineIntel", "Intel(R) Xeon(R) Processor @ 2.90GHz"),
            ("AuthenticAMD", "QEMU Virtual CPU version 2.5+"),
            ("AuthenticAMD", "AMD EPYC-Rome Processor"),
            ("AuthenticAMD", "AMD Opteron 63xx class CPU"),
            ("AuthenticAMD", "AMD EPYC"),
        ] {
            assert!(guest(vendor, name).is_masked(), "{name}");
            let metal = CpuModel { virtualised: false, ..guest(vendor, name) };
            assert!(!metal.is_masked(), "{name}: no hypervisor hides it");
        }
        for (vendor, name) in [
            ("GenuineIntel", "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz"),
            ("GenuineIntel", "Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz"),
            ("GenuineIntel", "Intel(R) Xeon(R) 6980P"),
            ("AuthenticAMD", "AMD EPYC 7R13 Processor"),
            ("AuthenticAMD", "AMD EPYC 9654 96-Core Processor"),
        ] {
            assert!(!guest(vendor, name).is_masked(), "{name}");
        }
        let graviton = CpuModel { virtualised: true, name: "Neoverse N1".into(), ..CpuModel::default() };
        assert!(!graviton.is_masked());
    }
}
