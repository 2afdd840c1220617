/** A real mail server that keeps what it is given. */
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer } from 'smtp-server'
import { onTestFinished } from 'vitest'
import { freePort } from './free-port.ts'

export interface Delivery {
  /** who the server was told to deliver to, whatever the headers say */
  recipients: string[]
  /** as it came, headers and all */
  raw: string
  mail: Email
}

/** Starts it on a free port; goes away with the test. `refuse` makes it turn every message away. */
export async function startSmtp() {
  const deliveries: Delivery[] = []
  const mood = { refuse: false }
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', async () => {
        if (mood.refuse) return done(Object.assign(new Error('come back later'), { responseCode: 451 }))
        const raw = Buffer.concat(chunks).toString()
        deliveries.push({ raw, recipients: session.envelope.rcptTo.map(({ address }) => address), mail: await PostalMime.parse(raw) })
        done()
      })
    },
  })
  const port = await freePort()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())))
  return { url: `smtp://127.0.0.1:${port}`, deliveries, mood }
}
