//! A headless Chromium, driven over its debugging protocol: as little of it as the tests need.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// Names under which Chromium is installed.
const NAMES: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "chromium-headless-shell",
    "google-chrome",
    "chrome",
];
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_mins(1);

/// The browser of this machine, if it has one.
pub(crate) fn installed() -> Option<&'static str> {
    NAMES.into_iter().find(|name| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    })
}

/// A page in a browser of its own.
pub(crate) struct Page {
    browser: Child,
    socket: WebSocket<TcpStream>,
    next: u64,
    /// What the page reported: console messages, exceptions, requests.
    pub(crate) events: Vec<Value>,
}

impl Drop for Page {
    fn drop(&mut self) {
        _ = self.browser.kill();
        _ = self.browser.wait();
    }
}

impl Page {
    /// Starts a browser that keeps its files in `home`.
    pub(crate) fn new(name: &str, home: &Path) -> Self {
        let mut browser = Command::new(name)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--user-data-dir={}", home.display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let stderr = browser.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(stderr).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.strip_prefix("DevTools listening on ws://")?.to_owned()))
            .expect("the browser says where it listens");
        // Nobody must block on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let host = address.split('/').next().expect("it has a host").to_owned();
        let mut page = Self {
            socket: connect(&host, &format!("ws://{address}")),
            browser,
            next: 0,
            events: Vec::new(),
        };
        let targets = page.call("Target.getTargets", &json!({}));
        let targets = targets["targetInfos"].as_array().expect("it is a list");
        let target = targets.iter().find(|target| target["type"] == "page");
        let id = target.expect("there is a page")["targetId"]
            .as_str()
            .expect("it has an id");
        page.socket = connect(&host, &format!("ws://{host}/devtools/page/{id}"));
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        page
    }

    /// Calls a method and waits for its result; what comes meanwhile is kept.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        let text = json!({ "id": id, "method": method, "params": parameters }).to_string();
        self.socket
            .send(Message::text(text))
            .expect("the browser listens");
        loop {
            let message = self.socket.read().expect("the browser answers in time");
            let Message::Text(text) = message else {
                continue;
            };
            let mut value: Value = serde_json::from_str(&text).expect("it is JSON");
            if value["id"] == id {
                assert!(value["error"].is_null(), "{method}: {value}");
                return value["result"].take();
            }
            self.events.push(value);
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let mut result = self.call(
            "Runtime.evaluate",
            &json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].take()
    }

    /// Opens a file and waits until its script has run.
    pub(crate) fn open(&mut self, file: &Path) {
        let url = format!("file://{}", file.display());
        self.call("Page.navigate", &json!({ "url": url }));
        self.wait("document.documentElement?.dataset.ready");
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        let since = Instant::now();
        while self.eval(&format!("!!({expression})")) != true {
            assert!(since.elapsed() < PATIENCE, "never: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sets the size of the window in CSS pixels, and whether it is dark.
    pub(crate) fn show(&mut self, width: u32, height: u32, dark: bool) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 }),
        );
        let value = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({ "features": features }),
        );
    }

    /// Moves the mouse.
    pub(crate) fn hover(&mut self, x: f64, y: f64) {
        let event = json!({ "type": "mouseMoved", "x": x, "y": y });
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// Presses and releases a key.
    pub(crate) fn key(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        let down = if text.is_empty() {
            "rawKeyDown"
        } else {
            "keyDown"
        };
        self.call(
            "Input.dispatchKeyEvent",
            &json!({ "type": down, "key": key, "text": text }),
        );
        self.call(
            "Input.dispatchKeyEvent",
            &json!({ "type": "keyUp", "key": key }),
        );
    }

    /// A picture of what is in view, as PNG.
    pub(crate) fn picture(&mut self) -> String {
        let picture = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        picture["data"]
            .as_str()
            .expect("it is a picture")
            .to_owned()
    }
}

fn connect(host: &str, url: &str) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(host).expect("the browser listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("it is not zero");
    tungstenite::client(url, stream)
        .expect("it speaks WebSocket")
        .0
}
