/** All settings: name in config.toml, variable, type and default. A test compares them with config.example.toml. */

import { search } from './schema-search.ts'
import { choice, duration, flag, header, integer, list, path, type Setting, secret, setting, size, text } from './setting.ts'
import * as kinds from './values.ts'

const networks = kinds.textKind(kinds.isNetwork, 'an address or a network such as 10.0.0.0/8')
const language = kinds.textKind((code) => /^\w+$/.test(code), 'a language such as "eng"')
const isBaseUrl = (url: string): boolean => kinds.isUrl('http', 'https')(url) && !/[?#]/.test(url)
const isRedirectTarget = (url: string): boolean => kinds.isUrl('http', 'https')(url) && kinds.isHeaderText(url)
const languages = /^\w+(\+\w+)*$/

/** Maximum of auth.refresh_grace_hours. */
export const maxRefreshGraceHours = 8760

export const schema = {
  data_dir: path('', 'DMS_DATA_DIR'),
  server: {
    host: text('127.0.0.1', 'DMS_SERVER_HOST'),
    port: integer(8080, 'DMS_SERVER_PORT', 0, 65_535),
    socket: path('', 'DMS_SERVER_SOCKET'),
    public_url: text('http://localhost:8080', 'DMS_PUBLIC_URL', isBaseUrl, 'an http(s) URL without ? and #'),
    trusted_proxies: list(networks, [], 'DMS_TRUSTED_PROXIES'),
    tls_cert: path('', 'DMS_TLS_CERT'),
    tls_key: path('', 'DMS_TLS_KEY'),
    request_timeout: duration('60s', 'DMS_REQUEST_TIMEOUT', '1s'),
    upload_timeout: duration('30m', 'DMS_UPLOAD_TIMEOUT', '1s'),
    drain_delay: duration('0s', 'DMS_DRAIN_DELAY'),
    shutdown_timeout: duration('30s', 'DMS_SHUTDOWN_TIMEOUT'),
    event_loop_warn: duration('200ms', 'DMS_EVENT_LOOP_WARN'),
    cors_origins: list(kinds.textKind(kinds.isOrigin, 'an origin such as https://dms.example.org'), [], 'DMS_CORS_ORIGINS'),
    web: flag(true, 'DMS_SERVER_WEB'),
    metrics_allow: list(networks, ['127.0.0.0/8', '::1/128'], 'DMS_SERVER_METRICS_ALLOW'),
  },
  database: {
    url: secret(text('', 'DATABASE_URL', kinds.isUrl('postgres', 'postgresql'), 'a postgres:// URL')),
    migration_url: secret(text('', 'DATABASE_MIGRATION_URL', kinds.isUrl('postgres', 'postgresql'), 'a postgres:// URL')),
    read_url: secret(text('', 'DATABASE_READ_URL', kinds.isUrl('postgres', 'postgresql'), 'a postgres:// URL')),
    max_lag: duration('1s', 'DMS_DATABASE_MAX_LAG', '100ms', '1m'),
    pool_max: integer(10, 'DMS_DATABASE_POOL_MAX', 1, 1000),
    connect_timeout: duration('5s', 'DMS_DATABASE_CONNECT_TIMEOUT', '100ms'),
    statement_timeout: duration('30s', 'DMS_DATABASE_STATEMENT_TIMEOUT'),
    ssl_ca: path('', 'DMS_DATABASE_SSL_CA'),
    auto_migrate: flag(false, 'DMS_AUTO_MIGRATE'),
    lock_timeout: duration('60s', 'DMS_MIGRATE_LOCK_TIMEOUT'),
  },
  storage: {
    kind: choice(['disk', 's3'], 'disk', 'DMS_STORAGE_KIND'),
    path: path('', 'DMS_STORAGE_PATH'),
    s3_endpoint: text('', 'DMS_S3_ENDPOINT', kinds.isUrl('http', 'https'), 'an http(s) URL'),
    s3_ca_file: path('', 'DMS_S3_CA_FILE'),
    s3_region: header('', 'DMS_S3_REGION'),
    s3_bucket: text('', 'DMS_S3_BUCKET', kinds.isBucketName, 'the name of a bucket'),
    s3_prefix: text('', 'DMS_S3_PREFIX', kinds.isKeyPrefix, 'a prefix such as "dms/" (letters, digits and _ - . /, no leading /)'),
    s3_credentials: choice(['static', 'instance'], 'static', 'DMS_S3_CREDENTIALS'),
    s3_access_key_id: header('', 'DMS_S3_ACCESS_KEY_ID'),
    s3_secret_access_key: secret(text('', 'DMS_S3_SECRET_ACCESS_KEY')),
    s3_session_token: secret(header('', 'DMS_S3_SESSION_TOKEN')),
    s3_force_path_style: flag(false, 'DMS_S3_FORCE_PATH_STYLE'),
    s3_timeout: duration('30s', 'DMS_S3_TIMEOUT', '1s', '10m'),
    s3_sse: choice(['none', 'AES256', 'aws:kms'], 'none', 'DMS_S3_SSE'),
    s3_sse_kms_key_id: header('', 'DMS_S3_SSE_KMS_KEY_ID'),
    redirect_downloads: flag(false, 'DMS_STORAGE_REDIRECT_DOWNLOADS'),
    cache_bytes: size('1GB', 'DMS_STORAGE_CACHE_BYTES'),
    tmp_path: path('', 'DMS_STORAGE_TMP_PATH'),
    min_free: size('1GB', 'DMS_STORAGE_MIN_FREE'),
    fsync: flag(true, 'DMS_STORAGE_FSYNC'),
  },
  search,
  ocr: {
    enabled: flag(true, 'DMS_OCR_ENABLED'),
    engine: choice(['auto', 'tesseract-js', 'tesseract-native'], 'auto', 'DMS_OCR_ENGINE'),
    quality: choice(['fast', 'balanced', 'best'], 'balanced', 'DMS_OCR_QUALITY'),
    default_language: text(
      'auto',
      'DMS_OCR_DEFAULT_LANGUAGE',
      (codes) => languages.test(codes),
      '"auto", or a language such as "eng" or "deu+eng"',
    ),
    languages: list(language, [], 'DMS_OCR_LANGUAGES'),
    converters: list(kinds.choiceKind(['djvulibre', 'libreoffice']), ['djvulibre', 'libreoffice'], 'DMS_OCR_CONVERTERS'),
    data_path: path('', 'DMS_OCR_DATA_PATH'),
    split: choice(['none', 'blank', 'barcode'], 'none', 'DMS_OCR_SPLIT'),
    dpi: integer(200, 'DMS_OCR_DPI', 72, 600),
    max_pages: integer(500, 'DMS_OCR_MAX_PAGES', 1),
    max_pixels: integer(60_000_000, 'DMS_OCR_MAX_PIXELS', 1),
    memory_limit: size('1500MB', 'DMS_OCR_MEMORY_LIMIT', '64MB'),
    // A request about up to ten pages has a timer of ten times as long.
    page_timeout: duration('60s', 'DMS_OCR_PAGE_TIMEOUT', '100ms', '2d'),
    timeout: duration('10m', 'DMS_OCR_TIMEOUT', '100ms'),
    turn: duration('5s', 'DMS_OCR_TURN'),
    max_attempts: integer(3, 'DMS_OCR_MAX_ATTEMPTS', 1, 100),
  },
  worker: {
    concurrency: integer(0, 'DMS_WORKER_CONCURRENCY', 0, 1024),
    queues: list(kinds.choiceKind(['ocr', 'sync', 'index', 'maintenance']), ['ocr', 'sync', 'index', 'maintenance'], 'DMS_WORKER_QUEUES'),
    poll_interval: duration('2s', 'DMS_WORKER_POLL_INTERVAL', '100ms'),
    lease: duration('60s', 'DMS_WORKER_LEASE', '1s'),
    shutdown_timeout: duration('120s', 'DMS_WORKER_SHUTDOWN_TIMEOUT'),
    schedule_sources: flag(true, 'DMS_WORKER_SCHEDULE_SOURCES'),
    embedded: flag(true, 'DMS_WORKER_EMBEDDED'),
    in_server_process: flag(false, 'DMS_WORKER_IN_SERVER_PROCESS'),
    hang_timeout: duration('60s', 'DMS_WORKER_HANG_TIMEOUT'),
    health_listen: text('', 'DMS_WORKER_HEALTH_LISTEN', kinds.isHostPort, 'host:port'),
  },
  sources: {
    default_interval: duration('1h', 'DMS_SOURCES_DEFAULT_INTERVAL', '1m', '365d'),
    concurrency: integer(4, 'DMS_SOURCES_CONCURRENCY', 1, 256),
    max_syncs_per_user: integer(1, 'DMS_SOURCES_MAX_SYNCS_PER_USER', 1, 1000),
    timeout: duration('60s', 'DMS_SOURCES_TIMEOUT', '100ms'),
    min_rate: size('1kB', 'DMS_SOURCES_MIN_RATE'),
    max_duration: duration('24h', 'DMS_SOURCES_MAX_DURATION', '1s'),
    turn: duration('10m', 'DMS_SOURCES_TURN'),
    max_change_share: setting(kinds.shareKind, 0.5, 'DMS_SOURCES_MAX_CHANGE_SHARE'),
    max_file_size: size('500MB', 'DMS_SOURCES_MAX_FILE_SIZE', '1B'),
    allow_private_networks: flag(false, 'DMS_SOURCES_ALLOW_PRIVATE_NETWORKS'),
    local_roots: list(kinds.pathKind, [], 'DMS_SOURCES_LOCAL_ROOTS'),
    ca_file: path('', 'DMS_SOURCES_CA_FILE'),
    encryption_key: secret(text('', 'DMS_SOURCES_ENCRYPTION_KEY', kinds.isKey32, '32 bytes in base64')),
  },
  limits: {
    max_request_size: size('100MB', 'DMS_MAX_REQUEST_SIZE', '1kB'),
    max_body_size: size('1MB', 'DMS_MAX_BODY_SIZE', '1kB'),
    max_body_size_anonymous: size('64kB', 'DMS_MAX_BODY_SIZE_ANONYMOUS', '1kB'),
    max_upload_size: size('500MB', 'DMS_MAX_UPLOAD_SIZE', '1B'),
    bulk_max_files: integer(10, 'DMS_BULK_MAX_FILES', 1, 1000),
    api_calls_per_minute: integer(100, 'DMS_API_CALLS_PER_MINUTE', 0, 1_000_000_000),
    per_page_default: integer(20, 'DMS_PER_PAGE_DEFAULT', 1, 1000),
    per_page_max: integer(100, 'DMS_PER_PAGE_MAX', 1, 1000),
    search_max_results: integer(1000, 'DMS_SEARCH_MAX_RESULTS', 1),
    answer_bytes_per_user: size('32MB', 'DMS_ANSWER_BYTES_PER_USER', '1MB'),
    answer_bytes_total: size('256MB', 'DMS_ANSWER_BYTES_TOTAL', '1MB'),
    ws_connections_per_user: integer(5, 'DMS_WS_CONNECTIONS_PER_USER', 1),
    comments_per_minute: integer(10, 'DMS_COMMENTS_PER_MINUTE'),
    registrations_per_hour: integer(10, 'DMS_REGISTRATIONS_PER_HOUR'),
    registrations_per_hour_total: integer(100, 'DMS_REGISTRATIONS_PER_HOUR_TOTAL'),
    verification_emails_per_hour: integer(200, 'DMS_VERIFICATION_EMAILS_PER_HOUR'),
    shared_links_per_hour: integer(20, 'DMS_SHARED_LINKS_PER_HOUR', 1),
    shared_verify_per_minute: integer(10, 'DMS_SHARED_VERIFY_PER_MINUTE', 1),
    shared_password_failures: integer(10, 'DMS_SHARED_PASSWORD_FAILURES', 1, 1000),
    shared_download_per_minute: integer(60, 'DMS_SHARED_DOWNLOAD_PER_MINUTE', 1),
  },
  documents: {
    on_duplicate: choice(['allow', 'reject', 'return'], 'allow', 'DMS_DOCUMENTS_ON_DUPLICATE'),
    trash_days: integer(30, 'DMS_DOCUMENTS_TRASH_DAYS', 0, 36_500),
    keep_versions: integer(0, 'DMS_DOCUMENTS_KEEP_VERSIONS'),
    version_days: integer(0, 'DMS_DOCUMENTS_VERSION_DAYS', 0, 36_500),
    worm: flag(false, 'DMS_DOCUMENTS_WORM'),
    pdfa: choice(['never', 'ocr', 'always'], 'never', 'DMS_DOCUMENTS_PDFA'),
  },
  auth: {
    method: choice(['local', 'oidc'], 'local', 'AUTH_METHOD'),
    jwt_secret: secret(text('', 'JWT_SECRET')),
    enable_registration: flag(true, 'ENABLE_REGISTRATION'),
    require_email_verification: flag(false, 'REQUIRE_EMAIL_VERIFICATION'),
    password_min_length: integer(8, 'PASSWORD_MIN_LENGTH', 1, 128),
    password_require_special: flag(false, 'PASSWORD_REQUIRE_SPECIAL'),
    password_require_numbers: flag(false, 'PASSWORD_REQUIRE_NUMBERS'),
    session_lifetime_hours: integer(24, 'SESSION_LIFETIME_HOURS', 1, 8760),
    refresh_grace_hours: integer(24, 'DMS_AUTH_REFRESH_GRACE_HOURS', 0, maxRefreshGraceHours),
    refresh_max_days: integer(30, 'DMS_AUTH_REFRESH_MAX_DAYS', 1, 3650),
    admin_username: text('admin', 'DMS_ADMIN_USERNAME'),
    admin_email: text('admin@localhost', 'DMS_ADMIN_EMAIL', (address) => /^[^@\s]+@[^@\s]+$/.test(address), 'an e-mail address'),
    admin_password: secret(text('', 'DMS_ADMIN_PASSWORD')),
  },
  oidc: {
    issuer: text('', 'OIDC_ISSUER', kinds.isUrl('http', 'https'), 'an http(s) URL'),
    client_id: text('', 'OIDC_CLIENT_ID'),
    client_secret: secret(text('', 'OIDC_CLIENT_SECRET')),
    client_private_key: secret(text('', 'OIDC_CLIENT_PRIVATE_KEY')),
    redirect_uri: text('', 'OIDC_REDIRECT_URI', kinds.isUrl('http', 'https'), 'an http(s) URL'),
    scope: text('openid profile email', 'OIDC_SCOPE'),
    user_claim: text('preferred_username', 'OIDC_USER_CLAIM'),
    groups_claim: text('groups', 'OIDC_GROUPS_CLAIM'),
    admin_group: text('', 'OIDC_ADMIN_GROUP'),
    auto_create_users: flag(true, 'OIDC_AUTO_CREATE_USERS'),
    link_by_email: flag(false, 'OIDC_LINK_BY_EMAIL'),
    post_login_url: text('', 'OIDC_POST_LOGIN_URL', isRedirectTarget, 'an http(s) URL in ASCII'),
    audience: text('', 'OIDC_AUDIENCE'),
    token_endpoint_auth_method: choice(
      ['client_secret_post', 'client_secret_basic', 'private_key_jwt', 'none'],
      'client_secret_post',
      'OIDC_TOKEN_ENDPOINT_AUTH_METHOD',
    ),
    hosted_domain: text('', 'OIDC_HOSTED_DOMAIN'),
    debug: flag(false, 'OIDC_DEBUG'),
  },
  smtp: {
    url: secret(text('', 'DMS_SMTP_URL', kinds.isUrl('smtp', 'smtps'), 'an smtp:// or smtps:// URL')),
    from: text('', 'DMS_SMTP_FROM'),
  },
  security: {
    headers_enabled: flag(true, 'SECURITY_HEADERS_ENABLED'),
    csp: header("default-src 'none'; frame-ancestors 'none'", 'SECURITY_CSP'),
    hsts_seconds: integer(31_536_000, 'SECURITY_HSTS_SECONDS'),
    hsts_include_subdomains: flag(false, 'SECURITY_HSTS_INCLUDE_SUBDOMAINS'),
    x_frame_options: header('DENY', 'SECURITY_X_FRAME_OPTIONS'),
    x_content_type_options: header('nosniff', 'SECURITY_X_CONTENT_TYPE_OPTIONS'),
    referrer_policy: header('no-referrer', 'SECURITY_REFERRER_POLICY'),
  },
  log: {
    level: choice(['trace', 'debug', 'info', 'warn', 'error'], 'info', 'DMS_LOG_LEVEL'),
    format: choice(['auto', 'pretty', 'logfmt', 'json'], 'auto', 'DMS_LOG_FORMAT'),
    file: path('', 'DMS_LOG_FILE'),
    access: flag(true, 'DMS_LOG_ACCESS'),
  },
  audit: {
    downloads: flag(true, 'DMS_AUDIT_DOWNLOADS'),
  },
  metrics: {
    enabled: flag(false, 'DMS_METRICS_ENABLED'),
    listen: text('127.0.0.1:9464', 'DMS_METRICS_LISTEN', kinds.isHostPort, 'host:port'),
    token: secret(header('', 'DMS_METRICS_TOKEN')),
  },
  backup: {
    path: path('', 'DMS_BACKUP_PATH'),
    keep: integer(7, 'DMS_BACKUP_KEEP', 1),
    key_file: path('', 'DMS_BACKUP_KEY_FILE'),
  },
  maintenance: {
    notifications_keep: duration('90d', 'DMS_MAINTENANCE_NOTIFICATIONS_KEEP', '1d', '3650d'),
    links_keep: duration('365d', 'DMS_MAINTENANCE_LINKS_KEEP', '1d', '3650d'),
    jobs_keep: duration('30d', 'DMS_MAINTENANCE_JOBS_KEEP', '1d', '3650d'),
  },
}

type Values<S> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : Values<S[K]> }

/** Configuration by the names of config.toml: durations in milliseconds, sizes in bytes, '' for unset text. `data_dir` is always set. */
export type Config = Values<typeof schema>

/** Settings by dotted key, in the order of config.toml. */
export const settings: ReadonlyMap<string, Setting<unknown>> = new Map(flatten('', schema))

type Tree = { readonly [name: string]: Setting<unknown> | Tree }

function flatten(prefix: string, tree: Tree): [key: string, setting: Setting<unknown>][] {
  return Object.entries(tree).flatMap(([name, entry]) =>
    isSetting(entry) ? [[prefix + name, entry]] : flatten(`${prefix}${name}.`, entry),
  )
}

function isSetting(entry: Setting<unknown> | Tree): entry is Setting<unknown> {
  return typeof entry.env === 'string'
}
