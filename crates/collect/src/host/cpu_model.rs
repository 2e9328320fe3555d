//! `/proc/cpuinfo`: which CPU this is, and whether a hypervisor is in between. On aarch64 the
//! number is in `MIDR_EL1`, which `/sys` shows.

use spindoctor_model::host::CpuModel;
use spindoctor_model::{Unavailable, microarchitecture};

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
                .and_then(|(family, model)| {
                    microarchitecture::of_x86(vendor, family, model, number("stepping").unwrap_or(0))
                })
                .map(|core| core.name.to_owned()),
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
    let core = microarchitecture::of_arm(implementer, part).map(|core| core.name);
    CpuModel {
        name: core.map_or_else(|| format!("implementer {implementer:#04x} part {part:#05x}"), str::to_owned),
        microarchitecture: core.map(str::to_owned),
        vendor: arm_vendor(implementer).to_owned(),
        family_model: None,
        virtualised: false,
    }
}

/// The company that designs a core, by its implementer (Linux, arch/arm64/include/asm/cputype.h).
fn arm_vendor(implementer: u32) -> &'static str {
    match implementer {
        0x41 => "ARM",
        0x43 => "Cavium",
        0x48 => "HiSilicon",
        0x61 => "Apple",
        0x6D => "Microsoft",
        0xC0 => "Ampere",
        _ => "unknown",
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
        let named = |stepping: u32| {
            let text = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n";
            parse_cpuinfo(&format!("{text}stepping\t: {stepping}\n\n")).unwrap().microarchitecture
        };
        assert_eq!(named(4).as_deref(), Some("Skylake"));
        assert_eq!(named(7).as_deref(), Some("Cascade Lake"));
        assert_eq!(named(11).as_deref(), Some("Cooper Lake"));
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
