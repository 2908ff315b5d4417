//! What the system says of the NPU, its driver and the runtime's library, where no model is at hand to ask them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// An NPU with Rockchip's driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board {
    /// The driver's version, as `0.9.8`; `None`: it is told to root alone, or not at all.
    pub driver: Option<String>,
    /// The NPU's cores; 0: the device tree does not tell.
    pub cores: usize,
}

/// The NPU that a driver named RKNPU serves; `None`: there is none. `root` is `/`.
pub fn board(root: &Path) -> Option<Board> {
    let driver = root.join("sys/bus/platform/drivers/RKNPU");
    let devices = fs::read_dir(driver).ok()?.flatten();
    // Devices are the links among its entries that have a place in the device tree. Each core has an interrupt.
    let names: Vec<Vec<u8>> = devices
        .filter_map(|device| fs::read(device.path().join("of_node/interrupt-names")).ok())
        .collect();
    let names = names
        .iter()
        .flat_map(|names| names.split(|&byte| byte == 0));
    Some(Board {
        driver: version(root),
        cores: names.filter(|name| !name.is_empty()).count(),
    })
}

fn version(root: &Path) -> Option<String> {
    let places = [
        "sys/kernel/debug/rknpu/version",
        "proc/rknpu/version",
        "sys/module/rknpu/version",
    ];
    let text = places
        .iter()
        .find_map(|place| fs::read_to_string(root.join(place)).ok())?;
    // `RKNPU driver: v0.9.8`, or the number alone.
    let last = text.split_whitespace().last()?;
    Some(last.trim_start_matches('v').to_owned())
}

/// Which file the code at an address of this process is from.
pub(super) fn file_of(address: usize) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let ends = range.and_then(|(from, to)| {
            let read = |text| usize::from_str_radix(text, 16).ok();
            Some(read(from)?..read(to)?)
        });
        ends.is_some_and(|range| range.contains(&address))
    })?;
    // Address, rights, offset, device, inode, and a path that may have spaces.
    let path = line.find('/').map(|at| &line[at..])?;
    Some(PathBuf::from(OsStr::new(path)))
}

/// The runtime's version, which stands in its library after these words.
pub(super) fn version_in(library: &Path) -> Option<String> {
    const WORDS: &[u8] = b"librknnrt version: ";
    const LONGEST: usize = 100;
    let bytes = fs::read(library).ok()?;
    let at = bytes.windows(WORDS.len()).position(|part| part == WORDS)?;
    let rest = &bytes[at + WORDS.len()..];
    let length = rest
        .iter()
        .take(LONGEST)
        .position(|&byte| !(b' '..=b'~').contains(&byte))?;
    let text = String::from_utf8_lossy(&rest[..length]).trim().to_owned();
    let number = text.starts_with(|first: char| first.is_ascii_digit());
    number.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Root(PathBuf);

    impl Root {
        fn new(name: &str) -> Self {
            let name = format!("crossinfer-board-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn with(self, path: &str, bytes: &[u8]) -> Self {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
            self
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    const DRIVER: &str = "sys/bus/platform/drivers/RKNPU";

    #[test]
    fn a_board_tells_its_driver_and_cores() {
        let names = format!("{DRIVER}/fdab0000.npu/of_node/interrupt-names");
        let root = Root::new("3588")
            .with(&names, b"npu0_irq\0npu1_irq\0npu2_irq\0")
            .with(&format!("{DRIVER}/uevent"), b"")
            .with("sys/kernel/debug/rknpu/version", b"RKNPU driver: v0.9.8\n");
        let expected = Board {
            driver: Some("0.9.8".into()),
            cores: 3,
        };
        assert_eq!(board(&root.0), Some(expected));

        let names = format!("{DRIVER}/fde40000.npu/of_node/interrupt-names");
        let root = Root::new("3568").with(&names, b"npu_irq\0");
        let expected = Board {
            driver: None,
            cores: 1,
        };
        assert_eq!(board(&root.0), Some(expected), "debugfs is root's");

        assert_eq!(board(&Root::new("none").0), None);
    }

    #[test]
    fn a_librarys_version_is_found_or_unknown() {
        let version = |bytes: &[u8]| {
            let root = Root::new("version").with("lib.so", bytes);
            version_in(&root.0.join("lib.so"))
        };
        let build = "2.3.2 (429f97ae6b@2025-04-09T09:09:27)";
        let file = format!("\x7fELF\0\u{1}librknnrt version: {build}\0more\0");
        assert_eq!(version(file.as_bytes()).as_deref(), Some(build));
        assert_eq!(version(b"librknnrt version: %s\0"), None);
        assert_eq!(version(b"librknnrt version: 2.3"), None, "cut off");
        assert_eq!(version(b"something else\0"), None);
        assert_eq!(version(b""), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn code_is_traced_to_its_file() {
        let own = file_of(file_of as *const () as usize).unwrap();
        let running = std::env::current_exe().unwrap();
        assert_eq!(
            fs::canonicalize(own).unwrap(),
            fs::canonicalize(running).unwrap()
        );
        assert_eq!(file_of(1), None);
    }
}
