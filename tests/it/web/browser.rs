//! A browser as pages see it, with a cookie and the headers of its forms; and users.

use std::sync::LazyLock;

use overdue::domain::user::{Grant, Password, PasswordHash, User, UserName};
use overdue::http::dashboard::AuthMode;
use overdue::operations::user;
use overdue::util::password;

use crate::support::server::{TestResponse, TestServer};

/// Password of every user.
pub(crate) const PASSWORD: &str = "correct horse";

/// A browser of a server. It keeps its cookie and sends the headers of browsers.
pub(crate) struct Browser<'a> {
    server: &'a TestServer,
    pub(crate) cookie: Option<String>,
    /// Cookie of a browser in which a user has signed in before.
    pub(crate) mark: Option<String>,
    /// Cookie of a sign-in at a provider.
    pub(crate) pending: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
}

impl<'a> Browser<'a> {
    pub(crate) fn new(server: &'a TestServer) -> Self {
        Self {
            server,
            cookie: None,
            mark: None,
            pending: None,
            headers: Vec::new(),
        }
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        form: &[(&str, &str)],
    ) -> TestResponse {
        let encode = |text: &str| {
            percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
                .to_string()
        };
        let body: Vec<_> = form
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect();
        let body = body.join("&");
        let form_type = "application/x-www-form-urlencoded";
        self.send_body(method, path, form_type, &body).await
    }

    /// Sends a form with fields and a file.
    pub(crate) async fn upload(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        (file_name, file): (&str, &str),
    ) -> TestResponse {
        let mut body = String::new();
        for (name, value) in fields {
            body.push_str(&format!(
                "--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            ));
        }
        body.push_str(&format!(
            "--edge\r\nContent-Disposition: form-data; name=\"file\"; \
             filename=\"{file_name}\"\r\nContent-Type: \
             application/octet-stream\r\n\r\n{file}\r\n--edge--\r\n"
        ));
        self.send_body("POST", path, "multipart/form-data; boundary=edge", &body)
            .await
    }

    async fn send_body(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> TestResponse {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nAccept: text/html\r\nUser-Agent: \
             Browser\r\n"
        );
        if !self.headers.iter().any(|(name, _)| name == "Host") {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let cookies = self.cookie.iter().chain(&self.mark);
        for cookie in cookies.chain(&self.pending) {
            head.push_str(&format!("Cookie: {cookie}\r\n"));
        }
        if method == "POST" {
            head.push_str(&format!(
                "Sec-Fetch-Site: same-origin\r\nContent-Type: {content_type}\r\n"
            ));
        }
        let answer = self
            .server
            .raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
            .await;
        for (_, cookie) in answer
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        {
            let pair = cookie.split(';').next().unwrap().to_owned();
            let kept = if pair.contains("overdue-known=") {
                &mut self.mark
            } else if pair.contains("overdue-pending=") {
                &mut self.pending
            } else {
                &mut self.cookie
            };
            *kept = (!pair.ends_with('=')).then_some(pair);
        }
        answer
    }

    pub(crate) async fn get(&mut self, path: &str) -> TestResponse {
        self.send("GET", path, &[]).await
    }

    pub(crate) async fn sign_in(&mut self, name: &str, password: &str) -> TestResponse {
        self.send("POST", "/login/", &[("name", name), ("password", password)])
            .await
    }
}

/// A browser whose user has just signed in.
pub(crate) async fn signed_in<'a>(server: &'a TestServer, name: &str) -> Browser<'a> {
    let mut browser = Browser::new(server);
    assert_eq!(browser.sign_in(name, PASSWORD).await.status, 303);
    browser
}

/// A server that requires passwords.
pub(crate) async fn server() -> TestServer {
    TestServer::start_with(|config| config.dashboard.auth = AuthMode::Password).await
}

/// Creates a user with the common password.
pub(crate) async fn make(server: &TestServer, name: &str, grant: Grant) -> Box<User> {
    // Hashed once, because each hash takes a while.
    static HASH: LazyLock<PasswordHash> = LazyLock::new(|| {
        let password = Password::parse(PASSWORD, &UserName::parse("somebody").unwrap()).unwrap();
        password::hash(&password, [7; password::SALT_LENGTH]).unwrap()
    });
    user::create(
        &server.handle,
        UserName::parse(name).unwrap(),
        Some(HASH.clone()),
        grant,
    )
    .await
    .unwrap()
}

/// Creates an owner with the common password.
pub(crate) async fn owner(server: &TestServer, name: &str) -> Box<User> {
    make(server, name, Grant::Owner).await
}
