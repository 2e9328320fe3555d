//! `/proc/cpuinfo`: which CPU this is, and whether a hypervisor is in between. On aarch64 the
//! number is in `MIDR_EL1`, which `/sys` shows.

use spindoctor_model::Unavailable;
use spindoctor_model::host::CpuModel;

use super::kernel_file;
use super::process::named_values;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;

/// The CPU.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/cpuinfo",
    help: "CPU model and microarchitecture, which decide what spinning costs",
    cost: "one file; the kernel writes a block of it for each CPU",
    needs: "",
    cadence: Cadence::Once,
    pace: Pace::once(),
    read: |target, sample, now| sample.cpu = reading(collect(target), now),
};

fn collect(target: &Target) -> Result<CpuModel, Unavailable> {
    let path = target.proc.join("cpuinfo");
    let text = kernel_file::read(&path)?;
    let midr = target.sys.join("devices/system/cpu/cpu0/regs/identification/midr_el1");
    let mut cpu = parse_cpuinfo(&text)
        .or_else(|| parse_midr(&kernel_file::read(&midr).ok()?))
        .ok_or_else(|| kernel_file::unknown_form(&path))?;
    // Only x86 has a flag for it. Xen shows it here, the others in the machine's maker.
    let maker = ["sys_vendor", "product_name"]
        .map(|name| kernel_file::read(&target.sys.join("class/dmi/id").join(name)).unwrap_or_default());
    cpu.virtualised |= target.sys.join("hypervisor/type").exists() || is_virtual_machine(&maker.concat());
    Ok(cpu)
}

/// True where the firmware's name for the machine is a hypervisor's. EC2 names its bare metal
/// (`m7g.metal`) in the same place as its guests.
fn is_virtual_machine(maker: &str) -> bool {
    let guests = ["QEMU", "KVM", "VMware", "VirtualBox", "Virtual Machine", "Google Compute", "OpenStack"];
    guests.iter().any(|guest| maker.contains(guest))
        || (maker.contains("Amazon EC2") && !maker.contains("metal"))
}

/// Reads the first CPU of `/proc/cpuinfo`, in x86's form or aarch64's.
pub fn parse_cpuinfo(text: &str) -> Option<CpuModel> {
    let first = text.trim_start().split("\n\n").next()?;
    let find = |wanted| named_values(first).find(|(name, _)| *name == wanted).map(|(_, value)| value);
    if let Some(vendor) = find("vendor_id") {
        let number = |name| find(name)?.parse::<u32>().ok();
        let family_model = number("cpu family").zip(number("model"));
        return Some(CpuModel {
            // The name is padded with spaces: `Intel(R) Xeon(R) CPU           L5640  @ 2.27GHz`.
            name: find("model name").unwrap_or(vendor).split_whitespace().collect::<Vec<_>>().join(" "),
            microarchitecture: family_model
                .and_then(|(family, model)| x86(vendor, family, model, number("stepping").unwrap_or(0)))
                .map(str::to_owned),
            vendor: vendor.to_owned(),
            family_model,
            virtualised: find("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        });
    }
    let hex = |name| u32::from_str_radix(find(name)?.strip_prefix("0x")?, 16).ok();
    // Heterogeneous ARM hosts list their CPUs one after another; the first stands for them.
    Some(arm(hex("CPU implementer")?, hex("CPU part")?))
}

/// Reads `midr_el1`: `0x00000000413fd0c1`. The implementer is in bits 24 to 31, the part in bits 4
/// to 15 (Arm Architecture Reference Manual, MIDR_EL1).
pub fn parse_midr(text: &str) -> Option<CpuModel> {
    let midr = u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()?;
    Some(arm((midr >> 24 & 0xff) as u32, (midr >> 4 & 0xfff) as u32))
}

fn arm(implementer: u32, part: u32) -> CpuModel {
    let (vendor, core) = arm_core(implementer, part);
    CpuModel {
        name: core.map_or_else(|| format!("implementer {implementer:#04x} part {part:#05x}"), str::to_owned),
        microarchitecture: core.map(str::to_owned),
        vendor: vendor.to_owned(),
        family_model: None,
        virtualised: false,
    }
}

/// Microarchitecture by vendor, family, model and stepping.
///
/// Intel: Linux, arch/x86/include/asm/intel-family.h. AMD: arch/x86/kernel/cpu/amd.c, "Figure out Zen generations",
/// Linux 6.18. Cascade Lake and Cooper Lake share Skylake's model; the stepping distinguishes them (intel-family.h
/// names none: Linux, arch/x86/events/intel/core.c and Intel's microcode guidance do, 5 to 7 and 10 to 11).
fn x86(vendor: &str, family: u32, model: u32, stepping: u32) -> Option<&'static str> {
    Some(match (vendor, family, model) {
        ("GenuineIntel", 6, 0x1A | 0x1E | 0x1F | 0x2E) => "Nehalem",
        ("GenuineIntel", 6, 0x25 | 0x2C | 0x2F) => "Westmere",
        ("GenuineIntel", 6, 0x2A | 0x2D) => "Sandy Bridge",
        ("GenuineIntel", 6, 0x3A | 0x3E) => "Ivy Bridge",
        ("GenuineIntel", 6, 0x3C | 0x3F | 0x45 | 0x46) => "Haswell",
        ("GenuineIntel", 6, 0x3D | 0x47 | 0x4F | 0x56) => "Broadwell",
        ("GenuineIntel", 6, 0x4E | 0x5E) => "Skylake",
        ("GenuineIntel", 6, 0x55) => match stepping {
            0..=4 => "Skylake",
            5..=9 => "Cascade Lake",
            _ => "Cooper Lake",
        },
        ("GenuineIntel", 6, 0x8E | 0x9E) => "Kaby Lake",
        ("GenuineIntel", 6, 0xA5 | 0xA6) => "Comet Lake",
        ("GenuineIntel", 6, 0x66) => "Cannon Lake",
        ("GenuineIntel", 6, 0x6A | 0x6C | 0x7D | 0x7E | 0x9D) => "Ice Lake",
        ("GenuineIntel", 6, 0xA7) => "Rocket Lake",
        ("GenuineIntel", 6, 0x8C | 0x8D) => "Tiger Lake",
        ("GenuineIntel", 6, 0x8F) => "Sapphire Rapids",
        ("GenuineIntel", 6, 0xCF) => "Emerald Rapids",
        ("GenuineIntel", 6, 0xAD | 0xAE) => "Granite Rapids",
        ("GenuineIntel", 6, 0x97 | 0x9A) => "Alder Lake",
        ("GenuineIntel", 6, 0xB7 | 0xBA | 0xBF) => "Raptor Lake",
        ("GenuineIntel", 6, 0xAA | 0xAC) => "Meteor Lake",
        ("GenuineIntel", 6, 0xB5 | 0xC5 | 0xC6) => "Arrow Lake",
        ("GenuineIntel", 6, 0xBD) => "Lunar Lake",
        ("GenuineIntel", 6, 0xAF) => "Sierra Forest",
        ("GenuineIntel", 6, 0xDD) => "Clearwater Forest",
        ("AuthenticAMD", 0x15, _) => "Bulldozer",
        ("AuthenticAMD", 0x17, 0x00..=0x2F | 0x50..=0x5F) | ("HygonGenuine", 0x18, _) => "Zen",
        ("AuthenticAMD", 0x17, 0x30..=0x4F | 0x60..=0x7F | 0x90..=0x91 | 0xA0..=0xAF) => "Zen 2",
        ("AuthenticAMD", 0x19, 0x00..=0x0F | 0x20..=0x5F) => "Zen 3",
        ("AuthenticAMD", 0x19, 0x10..=0x1F | 0x60..=0xAF) => "Zen 4",
        ("AuthenticAMD", 0x1A, 0x00..=0x2F | 0x40..=0x4F | 0x60..=0x7F) => "Zen 5",
        ("AuthenticAMD", 0x1A, 0x50..=0x5F | 0x80..=0xAF | 0xC0..=0xCF) => "Zen 6",
        _ => return None,
    })
}

/// Vendor and core by implementer and part (Linux, arch/arm64/include/asm/cputype.h).
fn arm_core(implementer: u32, part: u32) -> (&'static str, Option<&'static str>) {
    match implementer {
        0x41 => (
            "ARM",
            match part {
                0xD03 => Some("Cortex-A53"),
                0xD07 => Some("Cortex-A57"),
                0xD08 => Some("Cortex-A72"),
                0xD0B => Some("Cortex-A76"),
                0xD0C => Some("Neoverse N1"),
                0xD40 => Some("Neoverse V1"),
                0xD49 => Some("Neoverse N2"),
                0xD4F => Some("Neoverse V2"),
                0xD84 => Some("Neoverse V3"),
                0xD8E => Some("Neoverse N3"),
                _ => None,
            },
        ),
        0x43 => ("Cavium", (part == 0x0AF).then_some("ThunderX2")),
        0x48 => ("HiSilicon", (part == 0xD01).then_some("TaiShan v110")),
        0x61 => ("Apple", None),
        0x6D => ("Microsoft", (part == 0xD49).then_some("Azure Cobalt 100")),
        0xC0 => ("Ampere", matches!(part, 0xAC3 | 0xAC4).then_some("AmpereOne")),
        _ => ("unknown", None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{never_panics, put, target, tree};
    use super::*;

    #[test]
    fn a_westmere_on_bare_metal_is_known() {
        let root = tree("written/host-numa-two-nodes");
        assert_eq!(
            collect(&target(root.path())).unwrap(),
            CpuModel {
                name: "Intel(R) Xeon(R) CPU X5650 @ 2.67GHz".into(),
                microarchitecture: Some("Westmere".into()),
                vendor: "GenuineIntel".into(),
                family_model: Some((6, 44)),
                virtualised: false,
            }
        );
    }

    #[test]
    fn a_guest_is_seen_by_its_flag() {
        let text = "vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nflags\t\t: fpu hypervisor lahf_lm\n\n";
        let cpu = parse_cpuinfo(text).unwrap();
        assert!(cpu.virtualised);
        assert_eq!(cpu.microarchitecture.as_deref(), Some("Zen 5"));
    }

    #[test]
    fn stepping_shows_cascade_lake_from_skylake() {
        assert_eq!(x86("GenuineIntel", 6, 0x55, 4), Some("Skylake"));
        assert_eq!(x86("GenuineIntel", 6, 0x55, 7), Some("Cascade Lake"));
        assert_eq!(x86("GenuineIntel", 6, 0x55, 11), Some("Cooper Lake"));
    }

    #[test]
    fn arm_is_known_by_cpuinfo_and_by_its_register() {
        let graviton = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        let cpu = parse_cpuinfo(graviton).unwrap();
        assert_eq!((cpu.name.as_str(), cpu.vendor.as_str()), ("Neoverse N1", "ARM"));
        assert_eq!(parse_midr("0x00000000413fd0c1\n"), Some(cpu));
        assert_eq!(parse_midr("0x00000000ff00fff0\n").unwrap().name, "implementer 0xff part 0xfff");
    }

    #[test]
    fn an_arm_guest_is_seen_by_its_maker() {
        let root = tempfile::tempdir().unwrap();
        let target = target(root.path());
        put(root.path(), "proc/cpuinfo", "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n");
        put(root.path(), "sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
        put(root.path(), "sys/class/dmi/id/product_name", "c7g.large\n");
        assert!(collect(&target).unwrap().virtualised);
        put(root.path(), "sys/class/dmi/id/product_name", "c7g.metal\n");
        assert!(!collect(&target).unwrap().virtualised);
    }

    #[test]
    fn this_host_answers() {
        assert!(!collect(&Target::live(std::process::id())).unwrap().name.is_empty());
    }

    #[test]
    fn no_text_makes_the_parsers_panic() {
        never_panics(parse_cpuinfo);
        never_panics(parse_midr);
        never_panics(|text| parse_cpuinfo(&format!("CPU implementer: {text}\nCPU part: {text}")));
    }
}
