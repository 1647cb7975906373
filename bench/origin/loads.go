package origin

import (
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// loads takes load reports and keeps nothing of them.
type loads struct {
	lrsv3.UnimplementedLoadReportingServiceServer
	every time.Duration // the interval between two reports
}

// StreamLoadStats asks for the load of all clusters and discards the reports.
func (l *loads) StreamLoadStats(stream lrsv3.LoadReportingService_StreamLoadStatsServer) error {
	for asked := false; ; asked = true {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		if asked {
			continue
		}
		if err := stream.Send(&lrsv3.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(l.every)}); err != nil {
			return err
		}
	}
}
