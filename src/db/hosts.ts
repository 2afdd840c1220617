/** Databases with several hosts, as in libpq: `postgres://dms@a,b:5433/dms`. New connections go to the host that accepts writes. */
import type pg from 'pg'
import { TrackingClient } from './stalled-connection.ts'

export interface Hosts {
  /** Client of the current host. connect() rejects and selects the next host if it is unreachable or read-only. */
  readonly Client: new (
    config: pg.ClientConfig,
  ) => TrackingClient
  /** Repeats `connect` until it succeeds, at most once per host. */
  retry<T>(connect: () => Promise<T>): Promise<T>
}

/** A server that is in recovery, or read-only by its settings. The failover has not ended, or the standby has not been promoted. */
export class ReadOnlyHost extends Error {
  constructor(host: string) {
    super(`${host} accepts no writes`)
    this.name = 'ReadOnlyHost'
  }
}

const readOnlyQuery = 'show transaction_read_only'

const parts = /^(?<scheme>postgres(?:ql)?:\/\/)(?<user>[^@/?]*@)?(?<hosts>[^/?]*)(?<rest>.*)$/s

/** Splits a URL with several hosts into URLs of one host each. */
export function splitHosts(url: string): string[] {
  const { scheme = '', user = '', hosts = '', rest = '' } = parts.exec(url)?.groups ?? {}
  if (!hosts.includes(',')) return [url]
  return hosts.split(',').map((host) => `${scheme}${user}${host}${rest}`)
}

/** Returns how to connect to `url`. With one host, PostgreSQL itself reports a read-only server at the first write. */
export function openHosts(url: string | undefined): Hosts {
  const urls = splitHosts(url ?? '')
  if (urls.length === 1) return { Client: TrackingClient, retry: (connect) => connect() }
  let current = 0

  class HostClient extends TrackingClient {
    readonly #index = current
    readonly #timeoutMs: number

    constructor(config: pg.ClientConfig) {
      super({ ...config, connectionString: urls[current]! })
      this.#timeoutMs = config.connectionTimeoutMillis ?? 0
      // The connection may be lost before its owner listens.
      this.on('error', () => {})
    }

    override connect(): Promise<pg.Client>
    override connect(callback: (error: Error) => void): void
    override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
      const connected = this.#connectToPrimary()
      if (!callback) return connected
      void connected.then(() => (callback as (error?: Error) => void)(), callback)
    }

    async #connectToPrimary(): Promise<pg.Client> {
      try {
        await super.connect()
        const timer = this.#timeoutMs > 0 ? setTimeout(() => this.connection.stream.destroy(), this.#timeoutMs) : undefined
        const { rows } = await this.query<{ transaction_read_only: string }>(readOnlyQuery).finally(() => clearTimeout(timer))
        if (rows[0]?.transaction_read_only !== 'off') throw new ReadOnlyHost(`${this.host}:${this.port}`)
        return this
      } catch (error) {
        if (current === this.#index) current = (current + 1) % urls.length
        // A host that no longer answers would never confirm the end.
        void this.end().catch(() => {})
        throw error
      }
    }
  }

  return {
    Client: HostClient,
    async retry(connect) {
      for (let tries = 1; ; tries++) {
        const tried = current
        try {
          return await connect()
        } catch (error) {
          // An unchanged host was not at fault: the pool has no free connection.
          if (tries >= urls.length || current === tried) throw error
        }
      }
    },
  }
}
