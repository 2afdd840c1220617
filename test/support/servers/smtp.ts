/** A real mail server that keeps its mails. */
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer } from 'smtp-server'
import { onTestFinished } from 'vitest'
import { freePort } from './free-port.ts'

export interface Delivery {
  /** recipients of the envelope, whatever the headers say */
  recipients: string[]
  /** unchanged, with headers */
  raw: string
  mail: Email
}

/** Starts it on a free port; it is closed with the test. `refuse` makes it reject every mail. */
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
