//! What a heading names: boards, clocks, governors, memory, builds, what a program was bound to.

/// Words that a board's, a computer's or a chip's name begins with; what follows is its kind.
const MAKERS: [&str; 32] = [
    "banana",
    "beagle",
    "dimensity",
    "dragon",
    "exynos",
    "galaxy",
    "ipad",
    "iphone",
    "jetson",
    "khadas",
    "kirin",
    "milk",
    "nanopc",
    "nanopi",
    "odroid",
    "oneplus",
    "orange",
    "pi",
    "pixel",
    "poco",
    "radxa",
    "raspberry",
    "redmi",
    "rock",
    "rockchip",
    "rpi",
    "ryzen",
    "snapdragon",
    "steam",
    "tegra",
    "visionfive",
    "xiaomi",
];
/// Words within such a name.
const KINDS: [&str; 21] = [
    "agx", "ai", "b", "cm", "core", "deck", "elite", "gen", "itx", "lite", "max", "mini", "nano",
    "nx", "orin", "plus", "pro", "super", "ultra", "xavier", "zero",
];
/// How the number of a chip begins.
const CHIPS: [&str; 12] = [
    "a", "bcm", "imx", "mt", "qcm", "qcs", "rk", "s", "sa", "sc", "sm", "x1e",
];

/// Letters before a number that are no device's: tests and options, types of weights, versions, models, units of a chip.
const NO_DEVICE: [&str; 38] = [
    "avx", "b", "bf", "c", "cpu", "ctx", "cuda", "d", "ddr", "exp", "f", "fa", "fp", "gen", "glm",
    "gpt", "gpu", "int", "iq", "k", "lfm", "mtl", "n", "ngl", "npu", "p", "phi", "pp", "q", "qwen",
    "r", "rev", "sve", "t", "tg", "ub", "v", "w",
];
/// How a CPU's frequency is governed, and what is said of clocks without a number.
const GOVERNORS: [&str; 10] = [
    "conservative",
    "interactive",
    "maxn",
    "ondemand",
    "overclocked",
    "performance",
    "powersave",
    "schedutil",
    "stock",
    "userspace",
];

/// What a section's title may name.
const NAMES: [fn(&str) -> Vec<String>; 6] = [
    board_of,
    clocks_of,
    settings_of,
    memory_of,
    build_of,
    bound_of,
];

/// What a section's title may name, in the order of [`named`].
pub(crate) const NAMED: [&str; 6] = ["board", "MHz", "setting", "memory", "build", "binding"];

/// What a section's title names of each of [`NAMED`].
pub(crate) fn named(section: &str) -> [Vec<String>; NAMED.len()] {
    NAMES.map(|of| of(section))
}

fn words(section: &str) -> Vec<String> {
    let lower = section.to_lowercase();
    let chars: Vec<char> = lower.chars().collect();
    let digit = |at: Option<usize>| {
        at.and_then(|at| chars.get(at))
            .is_some_and(char::is_ascii_digit)
    };
    // A decimal comma is no end of a word.
    let plain: String = chars
        .iter()
        .enumerate()
        .map(|(at, c)| match c {
            ',' if digit(at.checked_sub(1)) && digit(Some(at + 1)) => '.',
            c => *c,
        })
        .collect();
    plain
        .split(|c: char| !c.is_alphanumeric() && c != '.')
        .map(|word| word.trim_matches('.').to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Boards and chips that a section's title names, in the order of their words.
pub(crate) fn board_of(section: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut within = false;
    let builds = build_of(section);
    for word in words(section)
        .into_iter()
        .filter(|word| !builds.contains(word))
    {
        let chip = CHIPS.iter().any(|start| {
            let number = word.strip_prefix(start).unwrap_or("");
            number.len() >= 3 && number.starts_with(|c: char| c.is_ascii_digit())
        });
        // Of a name alone: a number such as `5`, `5b` or `m5`, no test such as `pp64`, no amount such as `8gb` or `25w`.
        let number = word.len() <= 4
            && word.chars().take(2).any(|c| c.is_ascii_digit())
            && !["gb", "w", "t"].iter().any(|unit| word.ends_with(unit));
        within = MAKERS.contains(&word.as_str())
            || chip
            || device(&word)
            || (within && (number || KINDS.contains(&word.as_str())));
        if within {
            names.push(word);
        }
    }
    names
}

/// Whether a word is a device's by its form: a few letters and a number, as `s24`, `m2`, `vim4`.
fn device(word: &str) -> bool {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = word.len() - letters.len();
    (1..=4).contains(&digits)
        && (1..=4).contains(&letters.len())
        && letters.bytes().all(|c| c.is_ascii_lowercase())
        && !NO_DEVICE.contains(&letters)
}

/// Governors, power modes and what is said of clocks, in a section's title.
fn settings_of(section: &str) -> Vec<String> {
    let watts = |word: &str| {
        let number = word.strip_suffix('w');
        number.is_some_and(|number| !number.is_empty() && number.parse::<f64>().is_ok())
    };
    let all = words(section).into_iter();
    all.filter(|word| GOVERNORS.contains(&word.as_str()) || watts(word))
        .collect()
}

/// Memory in a section's title: its type, width and size.
fn memory_of(section: &str) -> Vec<String> {
    let words = words(section);
    let is = |(at, word): (usize, &String)| {
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        let sized = |unit: &str| {
            let number = word.strip_suffix(unit)?;
            let number = if number.is_empty() { before? } else { number };
            number.parse::<u32>().ok()?;
            Some(format!("{number}{unit}"))
        };
        let typed = word.starts_with("lpddr") || word.starts_with("ddr");
        typed
            .then(|| word.clone())
            .or_else(|| sized("bit"))
            .or_else(|| sized("gb"))
    };
    words.iter().enumerate().filter_map(is).collect()
}

/// Builds in a section's title: `b4000`, and what follows `commit`, `build` or `version`.
fn build_of(section: &str) -> Vec<String> {
    let words = words(section);
    let numbered = |word: &str| {
        let number = word.strip_prefix('b').unwrap_or("");
        number.len() >= 3 && number.bytes().all(|c| c.is_ascii_digit())
    };
    let is = |(at, word): (usize, &String)| {
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        let said = before.is_some_and(|before| {
            ["commit", "build", "version", "release", "tag"].contains(&before.as_str())
        });
        let named = said && word.contains(|c: char| c.is_ascii_digit());
        (named || numbered(word)).then(|| word.clone())
    };
    words.iter().enumerate().filter_map(is).collect()
}

/// What stood before the program in a section's command: CPUs, environment, machine.
fn bound_of(section: &str) -> Vec<String> {
    let before = ["taskset", "numactl", "nice", "chrt", "adb", "env"];
    let part = section.split("; ").find(|part| {
        let first = part.split(' ').next().unwrap_or("");
        before.contains(&first) || first.contains('=') || first.contains('@')
    });
    let words = part.unwrap_or("").split_whitespace();
    words.map(str::to_owned).collect()
}

/// Clocks that a section's title names, in MHz.
fn clocks_of(section: &str) -> Vec<String> {
    let words = words(section);
    let clock = |(at, word): (usize, &String)| {
        [("ghz", 1000.0), ("mhz", 1.0)]
            .into_iter()
            .find_map(|(unit, mhz)| {
                let number = match word.strip_suffix(unit)? {
                    "" => words.get(at.checked_sub(1)?)?,
                    number => number,
                };
                Some(format!("{:.0}", number.parse::<f64>().ok()? * mhz))
            })
    };
    words.iter().enumerate().filter_map(clock).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_title_names_is_read() {
        // Board, clocks, settings, memory, build, binding.
        for (title, names) in [
            ("Raspberry Pi 5", ["raspberry pi 5", "", "", "", "", ""]),
            (
                "Radxa Rock 5B (RK3588), pp512",
                ["radxa rock 5b rk3588", "", "", "", "", ""],
            ),
            (
                "on a Raspberry Pi 5 8GB, CPU",
                ["raspberry pi 5", "", "", "8gb", "", ""],
            ),
            (
                "Jetson Orin Nano at 25W",
                ["jetson orin nano", "", "25w", "", "", ""],
            ),
            (
                "CPU at 2.4 GHz, DDR 2133MHz",
                ["", "2400 2133", "", "ddr", "", ""],
            ),
            ("Rock mit 1,8 GHz", ["rock", "1800", "", "", "", ""]),
            ("7B gen 128", [""; 6]),
            ("Got it today! What I see", [""; 6]),
            ("then with vulkan", [""; 6]),
            ("tg128 @ d4096, q4_0, t4, ngl99, qwen2", [""; 6]),
            ("Galaxy S24 Ultra", ["galaxy s24 ultra", "", "", "", "", ""]),
            ("M2 Pro MacBook", ["m2 pro", "", "", "", "", ""]),
            ("governor = powersave", ["", "", "powersave", "", "", ""]),
            (
                "64-bit LPDDR5, 16 GB",
                ["", "", "", "64bit lpddr5 16gb", "", ""],
            ),
            (
                "With commit def456 (b4000)",
                ["", "", "", "", "def456 b4000", ""],
            ),
            (
                "Big cores; taskset -c 4-7",
                ["", "", "", "", "", "taskset -c 4-7"],
            ),
        ] {
            let read = NAMES.map(|of| of(title).join(" "));
            assert_eq!(read, names, "{title}");
        }
    }
}
